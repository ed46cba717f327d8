// SPDX-License-Identifier: Apache-2.0
// Checks of a locked state directory before the coordinator opens its ledger.
#ifndef ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
#define ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// FailedPrecondition: the ledger is missing or empty while other files of a state exist. Under a
// new ledger these files would belong to no job and would be removed. A directory without such
// files is a new state directory.
absl::Status CheckLedgerExists(const Files& files, const DataDirectory& directory);

// FailedPrecondition: the file system does not support hard links, which checkpoints need.
absl::Status CheckHardLinks(Files& files, const DataDirectory& directory);

// NotFound or InvalidArgument: `data_root` (--data-root) is not empty and not a readable directory.
absl::Status CheckDataRoot(const Files& files, const std::string& data_root);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
