// SPDX-License-Identifier: Apache-2.0
// Drawing the next token from its scores.
#ifndef ATOLL_WORKER_TRAIN_SAMPLING_H_
#define ATOLL_WORKER_TRAIN_SAMPLING_H_

#include <cstdint>
#include <span>

#include "common/base/random.h"

namespace atl {

// temperature 0: the highest score (the first on a tie). Otherwise a draw from softmax(scores /
// temperature) over the `top_k` highest scores (0 or more than the scores: all). Requires at least
// one score, finite scores, temperature >= 0.
uint32_t DrawToken(std::span<const float> scores, double temperature, uint32_t top_k, Rng& rng);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_SAMPLING_H_
