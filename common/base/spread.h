// SPDX-License-Identifier: Apache-2.0
// One loop on several threads.
#ifndef ATOLL_COMMON_BASE_SPREAD_H_
#define ATOLL_COMMON_BASE_SPREAD_H_

#include <cstddef>
#include <functional>

namespace atl {

// Calls walk(first, last) once for each of up to `threads` contiguous, disjoint parts of [0, count), the first in the
// caller's thread, the others each in a thread of its own, or in the caller's where the system gives no more, and
// returns when all are done. With nothing to do it is called once, with (0, 0). `walk` must not throw.
void Spread(size_t count, unsigned threads, const std::function<void(size_t first, size_t last)>& walk);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SPREAD_H_
