// SPDX-License-Identifier: Apache-2.0
// sync.pace balanced: the number of own inner steps that each worker takes in a period of the job clock, so
// that all reach its end together (dynamic local updates; Liu et al. 2024, 2401.09135, section 4). Pure.
#ifndef ATOLL_COORDINATOR_CORE_PACE_H_
#define ATOLL_COORDINATOR_CORE_PACE_H_

#include <cstdint>

#include "common/base/time.h"

namespace atl {

// floor(H x fastest / step), between 1 and H: the fastest worker takes all H. Both durations are
// for one inner step and above 0; a worker faster than `fastest` takes H too.
uint32_t BalancedSteps(uint32_t inner_steps, Duration step, Duration fastest);

// The time of a step of the job clock for a worker with `period` for `inner_steps` clock steps; 0: unknown.
Duration ClockPace(Duration period, uint32_t inner_steps);
// The estimated step of a worker that reported `step` a time `since` ago, rounded up. The reported
// step itself if its pace is unknown (0), or the report is older than `most`.
uint64_t StepByNow(uint64_t step, Duration since, Duration pace, Duration most);

// Whether the pace should change: only for a difference of more than an eighth of `present`, because
// measurements jitter and each change moves the send steps.
bool WorthChanging(uint32_t present, uint32_t wanted);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_PACE_H_
