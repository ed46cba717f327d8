// SPDX-License-Identifier: Apache-2.0
// How long a worker may be at fetching a job, by what there is to fetch and what its link has carried. Pure.
#ifndef ATOLL_COORDINATOR_CORE_FETCHING_H_
#define ATOLL_COORDINATOR_CORE_FETCHING_H_

#include <cstdint>
#include <string>

#include "common/base/time.h"
#include "common/plan/job_spec.h"

namespace atl {

// Deadlines of one fetch, each twice as long as the one before; at the last the worker is taken off the job.
constexpr uint32_t kFetchDeadlines = 3;

struct FetchTime {
  Duration allowed{};  // until the first deadline; at most about two days
  std::string reason;  // "440 MB at 9.8 MB/s, as measured": what follows from it
};

// `measured_rate` in bytes a second; 0: not measured, then that of a slow link.
FetchTime FetchTimeOf(const JobSpec& spec, uint64_t measured_rate);

// From the beginning to deadline number `passed` + 1.
Duration FetchDeadline(Duration allowed, uint32_t passed);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_FETCHING_H_
