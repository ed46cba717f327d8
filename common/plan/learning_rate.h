// SPDX-License-Identifier: Apache-2.0
// The inner learning rate as a function of the job clock, not of a worker's own count (docs/design.md section 3).
#ifndef ATOLL_COMMON_PLAN_LEARNING_RATE_H_
#define ATOLL_COMMON_PLAN_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "common/plan/job_spec.h"

namespace atl {

// The rate for the step that turns clock `step` into `step + 1`. Warm-up is linear from peak/warmup to the peak; cosine
// and linear fall to final_ratio x peak at total_steps; WSD stays at the peak, then falls linearly over decay_steps.
// After total_steps the final value holds. Requires schedule.total_steps >= 1.
double LearningRateAt(const InnerOptimizerSpec& inner, uint64_t step);

// A line for the user where the schedule of a resolved spec ends before the stop rule; empty: it does not.
std::string ScheduleEndsEarly(const JobSpec& spec);

// The joiner's ramp: (steps since fetch + 1) / join_warmup_steps, at most 1.
double JoinRamp(uint64_t steps_since_fetch, uint32_t join_warmup_steps);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LEARNING_RATE_H_
