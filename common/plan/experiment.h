// SPDX-License-Identifier: Apache-2.0
// What a job's `experiment` asks for, as pure functions that the coordinator's core and the worker's core share: which
// syncs are lost on purpose and how many workers take part (DiLoCo 2311.08105, "Dropped communication" and "Adaptive
// compute pool").
#ifndef ATOLL_COMMON_PLAN_EXPERIMENT_H_
#define ATOLL_COMMON_PLAN_EXPERIMENT_H_

#include "common/base/ids.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"

namespace atl {

// True when the sync in which `worker` would contribute to the round of `target` is lost on purpose: a draw from
// (data.seed, worker's name, fragment, version) with experiment.drop_sync_probability. What is dropped at one
// probability is dropped at every higher one, so that runs of one seed can be compared pair by pair.
bool DropsSync(const JobSpec& spec, const WorkerId& worker, const FragmentVersion& target);

// Workers that experiment.pool lets take part at `step` of the job clock, of k = workers.planned over the T planned
// steps; from T on what the last step has. Requires a resolved spec.
//   constant   workers.max, as without an experiment
//   doubling   k / 2, rounded up, in the first half, then k         halving    the other way round
//   ramp up    1, 2, ... k in k stages of equal length              ramp down  k, ... 2, 1
uint32_t PoolSize(const JobSpec& spec, uint64_t step);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_EXPERIMENT_H_
