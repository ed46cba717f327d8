// SPDX-License-Identifier: Apache-2.0
// The end of a job's data: no sample is free any more, and the workers train the samples they hold.
// Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_USED_UP_H_
#define ATOLL_COORDINATOR_CORE_USED_UP_H_

#include <string>

#include "coordinator/core/fleet.h"
#include "coordinator/core/run.h"

namespace atl {

// Updates run.used_up, the workers with nothing left to train: each waits, was denied samples, and
// all its samples are committed. No open round waits for them, except where they are sending;
// others may continue for some rounds.
void MarkUsedUp(Run& run, const Fleet& fleet);

// Whether every sample is trained: none is free, some worker was denied samples, every worker
// waits, and all held samples are in accepted or committed contributions. Ignores workers at the
// job's stop step, which train no more.
bool DataIsTrained(const Run& run, const Fleet& fleet);

// Whether the holders of the last samples have been silent for too long: some worker has nothing
// left to train, and no round was made within `limit`, or twice that with an upload in progress.
bool HeldInVain(const Run& run, Duration limit, Instant now);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_USED_UP_H_
