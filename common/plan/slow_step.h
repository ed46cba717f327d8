// SPDX-License-Identifier: Apache-2.0
// How large the work of a job is, roughly, before anything of it was measured: for deadlines. Pure.
#ifndef ATOLL_COMMON_PLAN_SLOW_STEP_H_
#define ATOLL_COMMON_PLAN_SLOW_STEP_H_

#include <cstdint>

#include "common/base/time.h"
#include "common/plan/job_spec.h"

namespace atl {

// Within some percent: embeddings and projections, no norms.
uint64_t RoughParameters(const ModelSpec& model);

// What an inner step takes a very slow machine, at 4 x 10^10 operations a second and six for each parameter and token;
// at most an hour, since nobody trains a model on a machine that is too slow for it.
Duration SlowStep(const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SLOW_STEP_H_
