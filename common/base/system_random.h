// SPDX-License-Identifier: Apache-2.0
// Random bits of the operating system, for what must differ between processes or must not be guessed. No decision reads
// them: what is to be repeatable takes common/base/random.h.
#ifndef ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_
#define ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_

#include <cstdint>

namespace atl {

// Thread-safe.
uint64_t SystemRandomBits();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SYSTEM_RANDOM_H_
