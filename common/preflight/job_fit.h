// SPDX-License-Identifier: Apache-2.0
// Whether a link carries a job, by the planner's verdict on a measured link, and whether a machine's memory holds it.
// Pure.
#ifndef ATOLL_COMMON_PREFLIGHT_JOB_FIT_H_
#define ATOLL_COMMON_PREFLIGHT_JOB_FIT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/plan/job_spec.h"
#include "common/plan/link_model.h"
#include "common/preflight/finding.h"

namespace atl {

// A job that a worker may be given.
struct JobOffer {
  JobId job;
  JobSpec spec;                        // resolved
  std::optional<double> step_seconds;  // of its workers' inner steps; nothing: none was measured
};

// A worker on a link should compute at least this share of its time.
constexpr double kGoodUtilization = 0.95;

// Good from kGoodUtilization on, else a warning with the rate that would do. Where no step time is known: from which
// step time on the link suffices.
Finding JudgeLink(const JobOffer& offer, const Link& link);

// What a worker of the job holds of `available_bytes`, the free memory of a machine of which nobody has said whether it
// has a GPU; activations come on top. A warning when a worker would not fit without one, or even with one.
Finding JudgeMemory(const JobOffer& offer, uint64_t available_bytes);

// "1.5 GiB".
std::string GiBText(uint64_t bytes);
// "12.3 Mbit/s".
std::string BitRateText(double bytes_per_second);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_JOB_FIT_H_
