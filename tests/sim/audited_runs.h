// SPDX-License-Identifier: Apache-2.0
// Runs that leave a state for an audit behind, and what must be found there.
#ifndef ATOLL_TESTS_SIM_AUDITED_RUNS_H_
#define ATOLL_TESTS_SIM_AUDITED_RUNS_H_

#include <cstdint>

#include "tests/sim/state_on_disk.h"

namespace atl {

inline constexpr char kAuditedJob[] = "small";

// A job that keeps its contributions and whose stored files are there.
JobSpec KeptJob(Harness& h);
// The coordinator, the job and workers a and b. May fail fatally.
void BeginRun(Harness& h, const JobSpec& spec);
// Likewise until the job has ended and the coordinator is gone.
void RunToItsEnd(Harness& h, const JobSpec& spec);

void ExpectWell(const audit::Report& report);
// Nothing is wrong, and all of so many rounds are held and equal to the bit.
void ExpectAllEqual(const audit::Report& replay, uint64_t rounds);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_AUDITED_RUNS_H_
