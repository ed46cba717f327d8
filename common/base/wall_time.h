// SPDX-License-Identifier: Apache-2.0
// Wall-clock seconds, the unit of certificates and tokens. For people and certificates only
// (time.h).
#ifndef ATOLL_COMMON_BASE_WALL_TIME_H_
#define ATOLL_COMMON_BASE_WALL_TIME_H_

#include <cstdint>

#include "common/base/time.h"

namespace atl {

// Whole seconds since 1970, rounded down.
inline int64_t WallSeconds(const Clock& clock) { return clock.WallNanos() / Seconds(1).ns; }

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_WALL_TIME_H_
