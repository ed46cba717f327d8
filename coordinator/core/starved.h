// SPDX-License-Identifier: Apache-2.0
// Fragments whose rounds lack contributions while others go on. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_STARVED_H_
#define ATOLL_COORDINATOR_CORE_STARVED_H_

#include <string>

#include "coordinator/core/fleet.h"
#include "coordinator/core/run.h"

namespace atl {

// "fragment 1 is at version 2 while others have reached 26: starved of contributions, to which a sent none"; empty: no
// fragment is starved.
std::string StarvedLine(const Run& run, const Fleet& fleet);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_STARVED_H_
