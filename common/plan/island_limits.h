// SPDX-License-Identifier: Apache-2.0
// Limits on islands: several processes as one worker.
#ifndef ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_
#define ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace atl::limits {

constexpr uint32_t kIslandRanks = 64;                      // of one island; more are refused
constexpr size_t kIslandSecretBytes = 16;                  // of the ranks' shared secret; shorter ones are refused
constexpr uint64_t kIslandOrderBytes = uint64_t{1} << 31;  // of one message between ranks; more is refused

}  // namespace atl::limits

#endif  // ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_
