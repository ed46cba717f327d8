// SPDX-License-Identifier: Apache-2.0
// The end of a job's data: no sample is free any more, and the workers train what they hold. Pure; owned by the engine
// thread.
#ifndef ATOLL_COORDINATOR_CORE_USED_UP_H_
#define ATOLL_COORDINATOR_CORE_USED_UP_H_

#include <string>

#include "coordinator/core/fleet.h"
#include "coordinator/core/run.h"

namespace atl {

// Finds who has nothing left to train (run.used_up): it waits, has asked in vain, and all that it held is committed. No
// open round waits for those, but where they are sending to it: others may go on for some rounds.
void MarkUsedUp(Run& run, const Fleet& fleet);

// Whether every sample is trained: none is free, somebody has asked for some in vain, everybody waits, and what the
// workers hold is in contributions that are accepted or committed. Not asked of whoever is at the job's stop step,
// which trains no more.
bool DataIsTrained(const Run& run, const Fleet& fleet);

// Whether those who hold the last samples have sent nothing for so long: somebody has nothing left to train, and no
// round has been made within `limit`, or twice that where something is on its way.
bool HeldInVain(const Run& run, Duration limit, Instant now);

// "; b holds 100 (waits for block 7)": who has samples that are in no contribution, so many of them in none that is
// committed. Empty: nobody.
std::string HoldersLine(const Run& run, const Fleet& fleet, Duration heartbeat_interval, Instant now);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_USED_UP_H_
