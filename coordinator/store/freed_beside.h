// SPDX-License-Identifier: Apache-2.0
// Files whose room is given back by another thread. Where the last name of a large file goes, the file system gives its
// blocks back within that call, a tenth of a second for a gigabyte and seconds on a slow disk, which is long for a
// thread that contributions wait for.
#ifndef ATOLL_COORDINATOR_STORE_FREED_BESIDE_H_
#define ATOLL_COORDINATOR_STORE_FREED_BESIDE_H_

#include <cstdint>
#include <memory>

#include "common/base/executor.h"
#include "common/base/files.h"

namespace atl {

constexpr uint64_t kFreedBesideBytes = uint64_t{1} << 20;  // smaller files go at once
// So many files wait at most, each with a descriptor; while they do, further ones go at once.
constexpr int kFreedBesideFiles = 16;

// `files`, whose Remove takes the name and leaves the room of a large file to a job of `executor`, which must outlive
// them: until it has run the disk still counts that room as taken. Thread-safe as `files` is.
std::unique_ptr<Files> FreedBeside(std::unique_ptr<Files> files, Executor& executor);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_FREED_BESIDE_H_
