// SPDX-License-Identifier: Apache-2.0
// Checks whether a link is fast enough for a job, by the planner's model on a measured link, and
// whether a machine has enough memory. Pure.
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

// A job that a worker may be assigned to.
struct JobOffer {
  JobId job;
  JobSpec spec;                        // resolved
  std::optional<double> step_seconds;  // of its workers' inner steps; nullopt: not measured
};

// A worker should spend at least this share of its time computing.
constexpr double kGoodUtilization = 0.95;

// Good if the link keeps a worker computing for kGoodUtilization of the time, otherwise a warning with the sufficient
// upload rate, if one exists. Without a known step time: good, and states from which step time on the link suffices.
Finding JudgeLink(const JobOffer& offer, const LinkCapacity& link);

// Compares the memory of a worker of the job, without activations, with `available_bytes`, the free host memory of a
// machine that may have a GPU. A warning when a worker without a GPU would not fit; its advice is to use a GPU or, if
// that does not suffice, a machine with more memory.
Finding JudgeMemory(const JobOffer& offer, uint64_t available_bytes);

// "1.5 GiB".
std::string GiBText(uint64_t bytes);
// "12.3 Mbit/s".
std::string BitRateText(double bytes_per_second);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_JOB_FIT_H_
