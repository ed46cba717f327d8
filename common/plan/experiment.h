// SPDX-License-Identifier: Apache-2.0
// A job's `experiment` as pure functions, shared by the cores of coordinator and worker: syncs
// dropped on purpose, and the number of workers that take part (DiLoCo 2311.08105, "Dropped
// communication" and "Adaptive compute pool").
#ifndef ATOLL_COMMON_PLAN_EXPERIMENT_H_
#define ATOLL_COMMON_PLAN_EXPERIMENT_H_

#include "common/base/ids.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"

namespace atl {

// True when the job drops the sync in which `worker` would contribute to the round of `target`: a
// draw from (data.seed, worker's name, fragment, version) with experiment.drop_sync_probability. A
// sync dropped at one probability is dropped at every higher one, so that runs with one seed can be
// compared pairwise.
bool DropsSync(const JobSpec& spec, const WorkerId& worker, const FragmentVersion& target);

// Number of workers that experiment.pool lets take part at `step` of the job clock, with k = workers.planned and T
// planned steps. From T on, the number of the last planned step applies. May be below workers.min: the job then needs
// only this number. Requires a resolved spec.
//   constant   workers.max, as without an experiment
//   doubling   k / 2, rounded up, in the first half, then k         halving    the reverse
//   ramp up    1, 2, ... k in k stages of equal length              ramp down  k, ... 2, 1
uint32_t PoolSize(const JobSpec& spec, uint64_t step);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_EXPERIMENT_H_
