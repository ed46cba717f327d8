// SPDX-License-Identifier: Apache-2.0
// Checks of a locked state directory before the coordinator opens its ledger.
#ifndef ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
#define ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_

#include <unistd.h>

#include <functional>
#include <string>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// FailedPrecondition: the ledger is missing or empty while other files of a state exist. Under a
// new ledger these files would belong to no job and would be removed. A directory without such
// files is a new state directory.
absl::Status CheckLedgerExists(const Files& files, const DataDirectory& directory);

// A function like access(2): 0 if the path may be used in that mode, else -1 with errno.
using Access = std::function<int(const char* path, int mode)>;

// FailedPrecondition: the ledger, or jobs/, blobs/ or events/, exists and cannot be written; mostly
// it belongs to another user, for example after a start with sudo. `access` is for tests.
absl::Status CheckWritable(const Files& files, const DataDirectory& directory, const Access& access = ::access);

// FailedPrecondition: `jobs/` contains files of a job that the ledger does not know. The ledger is then
// older than these files, or that of another state directory, and a new job of the same name would overwrite
// them. Logs a warning for each ended job that still has parameters and whose directory is missing.
absl::Status CheckJobFiles(const Files& files, const DataDirectory& directory, const RecoveredState& ledger, Log& log);

// FailedPrecondition: no hard link, which checkpoints need, can be made: not supported, or no permission to write.
absl::Status CheckHardLinks(Files& files, const DataDirectory& directory);

// NotFound or InvalidArgument: `data_root` (--data-root) is not empty and not a readable directory.
absl::Status CheckDataRoot(const Files& files, const std::string& data_root);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
