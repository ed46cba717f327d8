// SPDX-License-Identifier: Apache-2.0
// What a coordinator looks at before it opens its state directory, whose lock it holds.
#ifndef ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
#define ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// FailedPrecondition when the ledger is missing or empty while other files of a state are there: with a new ledger they
// would belong to no job, and be removed. A directory without such files is a new one.
absl::Status CheckLedgerIsThere(const Files& files, const DataDirectory& directory);

// FailedPrecondition when the file system makes no hard links, of which checkpoints consist.
absl::Status CheckHardLinks(Files& files, const DataDirectory& directory);

// NotFound or InvalidArgument when `data_root` (--data-root), where one is given, is no directory that can be read.
absl::Status CheckDataRoot(const Files& files, const std::string& data_root);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_OPENING_CHECKS_H_
