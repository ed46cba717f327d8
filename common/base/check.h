// SPDX-License-Identifier: Apache-2.0
// A broken invariant stops the process: training on wrong weights is worse than a restart. Checks stay on in release.
#ifndef ATOLL_COMMON_BASE_CHECK_H_
#define ATOLL_COMMON_BASE_CHECK_H_

namespace atl {

// Prints "file:line: check failed: expression: why" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression, const char* why);

}  // namespace atl

// ATOLL_CHECK(version == held + 1, "I6: versions grow by exactly one");
#define ATOLL_CHECK(condition, why) \
  ((condition) ? static_cast<void>(0) : ::atl::CheckFailed(__FILE__, __LINE__, #condition, why))

#endif  // ATOLL_COMMON_BASE_CHECK_H_
