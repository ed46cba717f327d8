// SPDX-License-Identifier: Apache-2.0
// The final report and checks of a simulated deployment.
#ifndef ATOLL_TESTS_SIM_SWARM_END_H_
#define ATOLL_TESTS_SIM_SWARM_END_H_

#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace atl {

// For people: the state of each worker, and the event logs of the jobs.
std::string StandingOf(World& world, const std::vector<JobId>& jobs);

// For each job that has not ended, the reason why it waits.
std::string UnendedJobs(World& world, const std::vector<JobId>& jobs);

// Cuts the power, then verifies and replays the remaining state. A problem breaks a law.
void AuditLeft(World& world);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SWARM_END_H_
