// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory this process may take. Reads what the kernel says; any thread. `root` stands before
// /proc and /sys, for tests.
#ifndef ATOLL_COMMON_BASE_HOST_MEMORY_H_
#define ATOLL_COMMON_BASE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace atl {

// The machine's memory, or the limit of the memory cgroup (version 1 or 2) of this process or one above it where that
// is less. 0 when the kernel does not say.
uint64_t MemoryLimitBytes(const std::string& root = "");

// Bytes this process may still take: MemAvailable, or what such a cgroup leaves if that is less, reclaimable page cache
// counted as free. Internal when /proc/meminfo cannot be read.
absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root = "");

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_MEMORY_H_
