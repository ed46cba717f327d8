// SPDX-License-Identifier: Apache-2.0
// Facts about a job that follow from its state, its workers and the time. Pure functions.
#ifndef ATOLL_COORDINATOR_CORE_JOB_FACTS_H_
#define ATOLL_COORDINATOR_CORE_JOB_FACTS_H_

#include <set>
#include <vector>

#include "coordinator/core/context.h"
#include "coordinator/core/run.h"

namespace atl {

// Workers assigned again after a pause that may still contribute to the held-over round, and are not expected in it.
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
// A running job's workers with nothing left to train: no sample is free; each was denied some, waits, has no lease.
std::set<WorkerId> UsedUp(const Run& run, const Fleet& fleet);
// Whether every sample is trained: none is free, a worker was denied samples, every worker waits, and all held
// samples are in accepted or committed contributions. Ignores those held by workers at the stop step.
bool DataIsTrained(const Run& run, const Fleet& fleet);
// Whether the holders of the last samples have sent nothing for too long: some worker has nothing left to train, and no
// round was made within `limit`, or twice that with an upload in progress.
bool HeldInVain(const Run& run, Duration limit, Instant now);
// The number of workers without which the job cannot continue.
uint32_t Needed(const Run& run);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_JOB_FACTS_H_
