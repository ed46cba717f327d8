// SPDX-License-Identifier: Apache-2.0
// A parallel loop.
#ifndef ATOLL_COMMON_BASE_SPREAD_H_
#define ATOLL_COMMON_BASE_SPREAD_H_

#include <cstddef>
#include <functional>

namespace atl {

// Splits [0, count) into up to `threads` contiguous parts and calls walk(first, last) once for
// each. The first part runs on the caller's thread. Each other part runs on a thread of its own, or
// on the caller's if the system refuses more threads. Returns when all parts are done. With count 0
// it calls walk(0, 0) once. `walk` must not throw.
void Spread(size_t count, unsigned threads, const std::function<void(size_t first, size_t last)>& walk);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SPREAD_H_
