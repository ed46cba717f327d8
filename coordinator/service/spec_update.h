// SPDX-License-Identifier: Apache-2.0
// `job update`: merges new field values into the spec of a running job. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_
#define ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_

#include <vector>

#include "atoll/v1/job.pb.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// The spec with the fields of `request.update_mask` taken from `request.spec`, and its labels changed by the
// request. InvalidArgument with one line for each field that cannot change during a run, does not exist, or
// gets an invalid value, and for each label to remove that the job does not have.
absl::StatusOr<JobSpec> MergeSpecUpdate(const JobSpec& current, const v1::UpdateJobRequest& request);

// InvalidArgument with one line per violation.
absl::Status ViolationsError(const std::vector<Violation>& violations);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_SPEC_UPDATE_H_
