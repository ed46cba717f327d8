// SPDX-License-Identifier: Apache-2.0
// A disk of which the coordinator may use a part: --disk-budget. What is derived from the space of the state directory
// (admission of jobs, the word about an almost full disk, room for files) then sees a disk of that size.
#ifndef ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_
#define ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"

namespace atl {

// Bytes that the file system has set aside for files below `root`, a file with several names once. What disappears
// meanwhile is not counted. Internal where `root` cannot be read.
absl::StatusOr<uint64_t> DiskUseBelow(const std::string& root);

// `files`, whose SpaceAt has at most `budget_bytes` in all, of which what lies below `root` is taken. Each call of
// SpaceAt walks over `root`. Thread-safe as `files` is.
std::unique_ptr<Files> WithDiskBudget(std::unique_ptr<Files> files, std::string root, uint64_t budget_bytes);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DISK_BUDGET_H_
