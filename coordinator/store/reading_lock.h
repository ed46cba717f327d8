// SPDX-License-Identifier: Apache-2.0
// Protects the reading of a stopped coordinator's state directory.
#ifndef ATOLL_COORDINATOR_STORE_READING_LOCK_H_
#define ATOLL_COORDINATOR_STORE_READING_LOCK_H_

#include <memory>

#include "coordinator/store/data_directory.h"

namespace atl {

// Takes a shared lock, which keeps a coordinator from starting. Creates nothing, and locks nothing
// if there is no file LOCK, as in a copy. FailedPrecondition: a coordinator runs (the message names
// directory and process), or LOCK is no regular file. PermissionDenied: LOCK cannot be opened.
absl::StatusOr<std::unique_ptr<DirectoryLock>> LockForReading(const DataDirectory& directory);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_READING_LOCK_H_
