// SPDX-License-Identifier: Apache-2.0
// The inner learning rate as a function of the job clock, not of a worker's own step count
// (docs/design.md section 3).
#ifndef ATOLL_COMMON_PLAN_LEARNING_RATE_H_
#define ATOLL_COMMON_PLAN_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "common/plan/job_spec.h"

namespace atl {

// Returns the rate for the step from clock `step` to `step + 1`. Warm-up is linear from peak/warmup_steps to the
// peak. Constant then stays at the peak. Cosine and linear fall to final_ratio x peak at total_steps. WSD stays at
// the peak, then falls linearly to the same value over the last decay_steps (0: a fifth of total_steps). The final
// value applies after total_steps. Requires schedule.total_steps >= 1.
double LearningRateAt(const InnerOptimizerSpec& inner, uint64_t step);

// A note for the user if the stop rule of a resolved spec falls into the warm-up or not on total_steps; else empty.
std::string ScheduleMismatch(const JobSpec& spec);

// Factor on the learning rate of a joining worker: (steps_since_fetch + 1) / join_warmup_steps, at most 1.
double JoinRamp(uint64_t steps_since_fetch, uint32_t join_warmup_steps);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LEARNING_RATE_H_
