// SPDX-License-Identifier: Apache-2.0
// Rough estimates of a job's work before any measurement, for deadlines. Pure.
#ifndef ATOLL_COMMON_PLAN_SLOW_STEP_H_
#define ATOLL_COMMON_PLAN_SLOW_STEP_H_

#include <cstdint>

#include "common/base/time.h"
#include "common/plan/job_spec.h"

namespace atl {

// Estimates the number of parameters: one embedding matrix, attention without grouped heads, MLP; no norms, no head.
uint64_t RoughParameters(const ModelSpec& model);

// Duration of an inner step on a very slow machine with 4 x 10^10 operations a second, at six
// operations for each parameter and token. At most an hour: a machine that needs longer for a step
// is useless for the job.
Duration SlowStep(const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SLOW_STEP_H_
