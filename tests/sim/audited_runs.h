// SPDX-License-Identifier: Apache-2.0
// Runs that leave a coordinator state for an audit, and the expected audit results.
#ifndef ATOLL_TESTS_SIM_AUDITED_RUNS_H_
#define ATOLL_TESTS_SIM_AUDITED_RUNS_H_

#include <cstdint>

#include "tests/sim/state_on_disk.h"

namespace atl {

inline constexpr char kAuditedJob[] = "small";

// A job that keeps its contributions; its manifest is stored.
JobSpec KeptJob(Harness& h);
// Starts the coordinator, submits the job, starts workers a and b. May fail fatally.
void BeginRun(Harness& h, const JobSpec& spec);
// BeginRun, then runs until the job has ended and kills the coordinator. May fail fatally.
void RunToItsEnd(Harness& h, const JobSpec& spec);

void ExpectWell(const audit::Report& report);
// Expects a report without problems in which all `rounds` rounds are on disk and equal to the bit.
void ExpectAllEqual(const audit::Report& replay, uint64_t rounds);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_AUDITED_RUNS_H_
