// SPDX-License-Identifier: Apache-2.0
// The time that a worker may take to fetch a job, from the job's size and the measured link rate. Pure.
#ifndef ATOLL_COORDINATOR_CORE_FETCHING_H_
#define ATOLL_COORDINATOR_CORE_FETCHING_H_

#include <cstdint>
#include <string>

#include "common/base/time.h"
#include "common/plan/job_spec.h"

namespace atl {

// Deadlines of one fetch, at intervals that double each time; at the last, the worker is taken off the job.
constexpr uint32_t kFetchDeadlines = 3;

struct FetchTime {
  Duration allowed{};  // until the first deadline; at most about two days
  std::string reason;  // "440 MB at 9.8 MB/s, as measured": the basis of `allowed`
};

// `measured_rate` in bytes per second; 0: not measured, then the rate of a slow link.
FetchTime FetchTimeOf(const JobSpec& spec, uint64_t measured_rate);

// The time from the start of the fetch to deadline number `passed` + 1.
Duration FetchDeadline(Duration allowed, uint32_t passed);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_FETCHING_H_
