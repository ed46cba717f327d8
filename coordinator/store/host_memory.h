// How much memory this process may take. Reads what the kernel says; any thread.
#ifndef ATOLL_COORDINATOR_STORE_HOST_MEMORY_H_
#define ATOLL_COORDINATOR_STORE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

namespace atl {

// The machine's memory, or the limit of the memory cgroup (version 2) of this process or one above it where that is
// less. 0 when the kernel does not say. `root` stands before /proc and /sys, for tests.
uint64_t MemoryLimitBytes(const std::string& root = "");

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_HOST_MEMORY_H_
