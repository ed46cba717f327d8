// SPDX-License-Identifier: Apache-2.0
// A limit on the disk space of the coordinator: --disk-budget. Everything computed from the space
// of the state directory (admission of jobs, the warning about an almost full disk, space for
// files) then sees a disk of that size.
#ifndef ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_
#define ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"

namespace atl {

// Bytes allocated for `root` and all below it; a file with several hard links counts once. A file deleted during
// the walk is not counted; a deleted directory ends the walk with the sum so far. Internal: `root` cannot be read.
absl::StatusOr<uint64_t> DiskUseBelow(const std::string& root);

// Wraps `files`: SpaceAt reports at most `budget_bytes` in all, of which the files below `root` are
// in use. Each call of SpaceAt walks over `root`. As thread-safe as `files`.
std::unique_ptr<Files> WithDiskBudget(std::unique_ptr<Files> files, std::string root, uint64_t budget_bytes);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_
