// SPDX-License-Identifier: Apache-2.0
// Number of cores that this process may use, as reported by the kernel. Thread-safe.
#ifndef ATOLL_COMMON_BASE_HOST_CORES_H_
#define ATOLL_COMMON_BASE_HOST_CORES_H_

#include <string>

namespace atl {

// Returns the number of cores in the affinity mask or, if lower, the rounded-up CPU quota of the
// cgroups (version 1 or 2) of this process and their ancestors. The quota matters in containers: a
// container of four cores on a machine of 64 sees 64. At least 1. `root` is a prefix to /proc and
// /sys, for tests.
unsigned UsableCores(const std::string& root = "");

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_CORES_H_
