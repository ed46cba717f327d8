// SPDX-License-Identifier: Apache-2.0
// `job update`: the new values of some fields put into a running job's spec. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_
#define ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_

#include <vector>

#include "atoll/v1/job.pb.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// The spec with the fields of `request.update_mask` taken from `request.spec`, and its labels changed as the request
// says. InvalidArgument lists, a line each, the fields that may not change in mid-run, that do not exist, or whose new
// value breaks a rule, and the labels to be removed that the job does not have.
absl::StatusOr<JobSpec> MergeSpecUpdate(const JobSpec& current, const v1::UpdateJobRequest& request);

// InvalidArgument with one line a violation.
absl::Status ViolationsError(const std::vector<Violation>& violations);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_
