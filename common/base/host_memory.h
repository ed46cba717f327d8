// SPDX-License-Identifier: Apache-2.0
// Memory that this process may use, as reported by the kernel. Thread-safe. `root` is a prefix to
// /proc and /sys, for tests.
#ifndef ATOLL_COMMON_BASE_HOST_MEMORY_H_
#define ATOLL_COMMON_BASE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace atl {

// Returns the machine's memory or, if lower, the limit of the memory cgroups (version 1 or 2) of
// this process and their ancestors, or the process's own limit (ulimit -v, ulimit -d). 0 when
// unknown.
uint64_t MemoryLimitBytes(const std::string& root = "");

// Returns the bytes that this process may still allocate: MemAvailable or, if lower, the remainder of the limit of a
// memory cgroup of this process or an ancestor, with reclaimable page cache counted as free. Ignores ulimit. Internal
// when /proc/meminfo cannot be read.
absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root = "");

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_MEMORY_H_
