// SPDX-License-Identifier: Apache-2.0
// Frees the blocks of deleted large files on another thread. When the last name of a large file is
// removed, the file system frees its blocks within that call: a tenth of a second for a gigabyte,
// seconds on a slow disk. That is too long for a thread on which contributions wait.
#ifndef ATOLL_COORDINATOR_STORE_BACKGROUND_FREE_H_
#define ATOLL_COORDINATOR_STORE_BACKGROUND_FREE_H_

#include <cstdint>
#include <memory>

#include "common/base/executor.h"
#include "common/base/files.h"

namespace atl {

constexpr uint64_t kBackgroundFreeBytes = uint64_t{1} << 20;  // smaller files are freed by Remove itself
// At most this number of files waits to be freed, each with an open descriptor. Further files are
// freed by Remove itself.
constexpr int kBackgroundFreeFiles = 16;

// Wraps `files`: Remove unlinks the name, and a task on `executor` frees the space of a large file.
// Until the task has run, the disk counts that space as used. `executor` must outlive the result.
// As thread-safe as `files`.
std::unique_ptr<Files> FreeInBackground(std::unique_ptr<Files> files, Executor& executor);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_BACKGROUND_FREE_H_
