// SPDX-License-Identifier: Apache-2.0
// The losses that a round's contributions claim, bounded for the round's mean. For people: nothing is decided
// with it. No coordinator can verify a loss, and an honest worker that diverges has a large one, so
// no contribution is refused for it. But a single one must not move the curve of all. Pure.
#ifndef ATOLL_COORDINATOR_CORE_ROUND_LOSS_H_
#define ATOLL_COORDINATOR_CORE_ROUND_LOSS_H_

#include <cstdint>
#include <vector>

#include "common/plan/records.h"

namespace atl {

// Twice the loss of equal probabilities in the largest vocabulary, ln(2^24), in 1e-6 nats. A model
// that has learned nothing has about half of this, or less.
constexpr int64_t kUnremarkableLossMicro = 33'280'000;

// A loss of the round counts as at most this, in 1e-6 nats: kUnremarkableLossMicro, or twice the
// middle loss if that is more (every worker diverges). The middle one of an even number is the lower.
int64_t MostLossCountedMicro(const RoundRecord& record);
// The workers that claimed a larger loss than MostLossCountedMicro.
std::vector<WorkerId> LossesBounded(const RoundRecord& record);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ROUND_LOSS_H_
