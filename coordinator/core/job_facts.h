// SPDX-License-Identifier: Apache-2.0
// Facts about a job that follow from its state, its workers and the time. Pure functions.
#ifndef ATOLL_COORDINATOR_CORE_JOB_FACTS_H_
#define ATOLL_COORDINATOR_CORE_JOB_FACTS_H_

#include <set>
#include <vector>

#include "coordinator/core/context.h"
#include "coordinator/core/run.h"

namespace atl {

// Workers that are assigned to the job again after a pause, and neither expected nor arrived in the held-over round.
std::vector<WorkerId> OnTheirWay(const Run& run, const Fleet& fleet, const Round& round);
RoundRule RuleOf(const Run& run, const Fleet& fleet, FragmentIndex fragment);
// The time from the opening of a round to its deadline.
Duration DeadlineOf(const Run& run, const CoreContext& core);
// The duration of a period of this worker, at its pace; zero if no step was measured.
Duration PeriodOf(const Run& run, const Member& member);
Instant FetchDeadlineOf(const Run& run, const Member& member);
uint64_t NewestStep(const Run& run, const Fleet& fleet);
// The largest step that at least half of the training workers have reached.
uint64_t StepOfHalf(const Run& run, const Fleet& fleet);
inline uint64_t ClockOf(const Run& run, const Fleet& fleet) { return run.ClockStep(NewestStep(run, fleet)); }
// The workers with nothing left to train: each waits, was denied samples, and all its samples are committed.
std::set<WorkerId> UsedUp(const Run& run, const Fleet& fleet);
// Whether every sample is trained: none is free, some worker was denied samples, every worker waits, and all held
// samples are in accepted or committed contributions. Ignores workers at the job's stop step, which train no more.
bool DataIsTrained(const Run& run, const Fleet& fleet);
// Whether the holders of the last samples have sent nothing for too long: some worker has nothing left to train, and no
// round was made within `limit`, or twice that with an upload in progress.
bool HeldInVain(const Run& run, Duration limit, Instant now);
// The number of workers without which the job cannot continue.
uint32_t Needed(const Run& run);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_JOB_FACTS_H_
