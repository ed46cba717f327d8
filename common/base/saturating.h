// SPDX-License-Identifier: Apache-2.0
// Arithmetic that saturates at UINT64_MAX, like std::add_sat and std::mul_sat of C++26. Pure.
#ifndef ATOLL_COMMON_BASE_SATURATING_H_
#define ATOLL_COMMON_BASE_SATURATING_H_

#include <cstdint>

namespace atl {

constexpr uint64_t AddSat(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
constexpr uint64_t MulSat(uint64_t a, uint64_t b) { return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SATURATING_H_
