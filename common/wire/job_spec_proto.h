// SPDX-License-Identifier: Apache-2.0
// atoll.v1.JobSpec <-> atl::JobSpec. What the message leaves out gets the default of job_spec.h; values that the
// message cannot carry into the domain are violations, everything else is ValidateJobSpec's.
#ifndef ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_
#define ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_

#include <vector>

#include "atoll/v1/job.pb.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// Fills `out` except name and labels, which are not part of the message. Returns every field that cannot be taken over:
// an enum number that is not known, a hash that is not 64 hexadecimal digits, a duration out of range, an outer rate of
// 0. Paths of a job file (model.init.directory, data.corpora[].manifest) are violations unless `before_submit`; then
// they are left for the command line to replace by hashes.
std::vector<Violation> JobSpecFromProto(const v1::JobSpec& message, bool before_submit, JobSpec& out);

// The message with every default written out, so that a reader needs no table of defaults. What is fixed at submit and
// not yet known stays absent. JobSpecFromProto of it gives the same spec.
v1::JobSpec JobSpecToProto(const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_
