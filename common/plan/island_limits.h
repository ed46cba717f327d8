// SPDX-License-Identifier: Apache-2.0
// Limits for islands: several processes that form one worker.
#ifndef ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_
#define ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace atl::limits {

constexpr uint32_t kIslandRanks = 64;                      // ranks of one island; more are refused
constexpr size_t kIslandSecretBytes = 16;                  // shared secret of the ranks; a shorter one is refused
constexpr uint64_t kIslandOrderBytes = uint64_t{1} << 31;  // one message between ranks; a larger one is refused

}  // namespace atl::limits

#endif  // ATOLL_COMMON_PLAN_ISLAND_LIMITS_H_
