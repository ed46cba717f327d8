// SPDX-License-Identifier: Apache-2.0
// How many of the host's cores this process may keep busy. Reads what the kernel says; any thread.
#ifndef ATOLL_COMMON_BASE_HOST_CORES_H_
#define ATOLL_COMMON_BASE_HOST_CORES_H_

#include <string>

namespace atl {

// Those it may run on, or, where that is less, what the quota of a cpu cgroup (version 1 or 2) of this process or one
// above it amounts to, rounded up: a container of four cores on a machine of 64 sees 64. At least 1. `root` stands
// before /proc and /sys, for tests.
unsigned UsableCores(const std::string& root = "");

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_CORES_H_
