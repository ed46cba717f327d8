// SPDX-License-Identifier: Apache-2.0
// Random bits of the operating system, for values that must differ between processes or must be
// unguessable. No decision uses them: repeatable code uses common/base/random.h.
#ifndef ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_
#define ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_

#include <cstdint>

namespace atl {

// Thread-safe.
uint64_t SystemRandomBits();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_
