// SPDX-License-Identifier: Apache-2.0
// `atoll-coordinator backup` and `atoll-coordinator restore`: copy the state of a coordinator,
// running or not, to a backup, and a backup to a new state directory, on this or another host.
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
constexpr int kExitNotDone = 1;  // refused or aborted; the target does not exist
constexpr int kExitDamage = 65;  // the source is damaged; the target exists if no start needs the damaged files

// Copies into TARGET.partial, flushes, verifies (coordinator/audit) and renames, so TARGET is complete or missing.
// Refuses a TARGET that exists, unless as an empty directory. Resumes a TARGET.partial of an earlier attempt. A
// backup takes a cut of the state (cut.h), invisible to a coordinator that runs on it or starts meanwhile, and raises
// the process's soft limit of open files. A restored ledger begins a new line (common/plan/boot_lines.h). Writes one
// line to `out` if TARGET was made. After a restore, a second line gives the time of the state and the steps to
// repeat. Writes an error message or findings to `err`, also for a TARGET with damage in files that no start needs.
int RunBackup(const BackupOptions& options, std::ostream& out, std::ostream& err);

// FailedPrecondition if `state_dir` is a backup, finished or not: a coordinator running on it would
// continue the line of its source.
absl::Status CheckIsNoBackup(const std::string& state_dir);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_BACKUP_COMMAND_H_
