// SPDX-License-Identifier: Apache-2.0
// What is said and checked of a simulated deployment at its end.
#ifndef ATOLL_TESTS_SIM_SWARM_END_H_
#define ATOLL_TESTS_SIM_SWARM_END_H_

#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace atl {

// For people: what each worker has, and the event logs of the jobs.
std::string StandingOf(World& world, const std::vector<JobId>& jobs);

// Of each job that has not ended, what it waits for.
std::string UnendedJobs(World& world, const std::vector<JobId>& jobs);

// Cuts the power, then verifies and replays the state that is left; what is not well there breaks a law.
void AuditLeft(World& world);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SWARM_END_H_
