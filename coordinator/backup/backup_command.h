// SPDX-License-Identifier: Apache-2.0
// `atoll-coordinator backup` and `atoll-coordinator restore`: the state of a coordinator, whether it runs or not,
// copied to a backup, and from a backup to a new state directory, on this or another host.
#ifndef ATOLL_COORDINATOR_BACKUP_BACKUP_COMMAND_H_
#define ATOLL_COORDINATOR_BACKUP_BACKUP_COMMAND_H_

#include <cstdint>
#include <iosfwd>
#include <string>

#include "common/base/status.h"

namespace atl::backup {

struct BackupOptions {
  bool restore = false;
  std::string state_dir;  // read by backup, made by restore
  std::string backup;     // made by backup, read by restore
  int64_t wall_s = 0;     // Unix time
};

// Exit codes (docs/backup.md).
constexpr int kExitDone = 0;
constexpr int kExitNotDone = 1;  // refused or broken off; nothing stands at the target's name
constexpr int kExitDamage = 65;  // what was to be copied is damaged; likewise, but for what nothing starts from

// Copies into TARGET.partial, flushes, verifies (coordinator/audit) and renames; so TARGET is whole or not there. What
// exists is never overwritten. A TARGET.partial of an earlier try is gone on with. A backup takes a cut of the state
// (cut.h), of which a coordinator that runs on it, or is started meanwhile, notices nothing; it raises the process's
// limit of open files to what it may. A restored ledger begins a new line (common/plan/boot_lines.h). Writes one line
// to `out` when done, and after a restore another one, which says as of when the state is and what is to be done again;
// otherwise one sentence, or findings, to `err`.
int RunBackup(const BackupOptions& options, std::ostream& out, std::ostream& err);

// FailedPrecondition when `state_dir` is a backup, finished or not: a coordinator that ran on it would go on in the
// line it comes from.
absl::Status CheckIsNoBackup(const std::string& state_dir);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_BACKUP_COMMAND_H_
