// SPDX-License-Identifier: Apache-2.0
// Conversion between atoll.v1.JobSpec and atl::JobSpec. Missing fields get the defaults of
// job_spec.h; those of workers.max and sync.weights depend on other fields. Values that the domain
// form cannot represent are violations; ValidateJobSpec checks everything else.
#ifndef ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_
#define ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_

#include <vector>

#include "atoll/v1/job.pb.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// Fills `out` except name and labels, which are not part of the message. Returns a violation for
// every field that cannot be converted: an unknown enum number, a hash that is not 64 hexadecimal
// digits, a duration out of range, a list that is too long, an outer rate of 0. Paths of a job file
// (model.init.directory, data.corpora[].manifest, evaluation.tasks[].file) are violations unless
// `before_submit`, when the command line still has to replace them by hashes.
std::vector<Violation> JobSpecFromProto(const v1::JobSpec& message, bool before_submit, JobSpec& out);

// Returns the message with every default filled in, so that a reader needs no table of defaults.
// Values fixed at submit and not yet known stay missing. JobSpecFromProto of the result gives the
// same spec without name and labels.
v1::JobSpec JobSpecToProto(const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_JOB_SPEC_PROTO_H_
