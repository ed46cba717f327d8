// SPDX-License-Identifier: Apache-2.0
// sync.pace balanced: how many of its own inner steps each worker takes in a period of the job clock, so that all of
// them reach its end together (dynamic local updates; Liu et al. 2024, 2401.09135, section 4). Pure.
#ifndef ATOLL_COORDINATOR_CORE_PACE_H_
#define ATOLL_COORDINATOR_CORE_PACE_H_

#include <cstdint>

#include "common/base/time.h"

namespace atl {

// floor(H x fastest / step), within 1 and H: the fastest worker takes all H. Both durations are of one inner step and
// above 0; a worker that is faster than `fastest` takes H as well.
uint32_t BalancedSteps(uint32_t inner_steps, Duration step, Duration fastest);

// What a step of the job clock takes a worker whose period of `inner_steps` clock steps takes `period`; 0: not known.
Duration ClockPace(Duration period, uint32_t inner_steps);
// Where a worker is by now that said `since` ago that it is at `step`, rounded up. At its word where its pace is not
// known (0), or where it has said nothing for longer than `most`.
uint64_t StepByNow(uint64_t step, Duration since, Duration pace, Duration most);

// Measurements jitter, and a change moves the sends: only what differs by more than an eighth of `present` is worth
// one.
bool WorthChanging(uint32_t present, uint32_t wanted);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_PACE_H_
