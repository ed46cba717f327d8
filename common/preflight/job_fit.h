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

// Good from kGoodUtilization on, otherwise a warning with the sufficient rate. Without a known step
// time: states from which step time on the link suffices.
Finding JudgeLink(const JobOffer& offer, const LinkCapacity& link);

// Compares the memory of a worker of the job, without activations, with `available_bytes`, the free
// memory of a machine with or without a GPU (unknown). A warning when a worker would not fit
// without a GPU, or even with one.
Finding JudgeMemory(const JobOffer& offer, uint64_t available_bytes);

// "1.5 GiB".
std::string GiBText(uint64_t bytes);
// "12.3 Mbit/s".
std::string BitRateText(double bytes_per_second);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_JOB_FIT_H_
