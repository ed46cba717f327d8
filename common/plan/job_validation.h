// SPDX-License-Identifier: Apache-2.0
// The semantic rules of a job. Reports all violations at once; command line and coordinator share
// this code.
#ifndef ATOLL_COMMON_PLAN_JOB_VALIDATION_H_
#define ATOLL_COMMON_PLAN_JOB_VALIDATION_H_

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

struct Violation {
  std::string field;    // dotted path as in the job file: "sync.inner_steps"
  std::string problem;  // the fault, the bound, and what to do, as one clause
};

// Returns all violations in the order of the job file; empty means valid. Reads no file and no
// clock. With `before_submit`, values that the command line fills in (manifest, tokenizer, name)
// may be missing.
std::vector<Violation> ValidateJobSpec(const JobSpec& spec, bool before_submit);

// Sets all values that are fixed at submit: sizes that are 0, outer defaults from planned workers
// and outer steps, planned steps of the schedule. `tokenizer_vocab` is the corpora's. Requires a
// valid spec. Returns a line for the user for each value worth reporting ("outer momentum 0.6:
// fewer than 200 outer steps").
std::vector<std::string> ResolveDefaults(JobSpec& spec, uint32_t tokenizer_vocab);

// Inner steps of the job clock until the stop rule, computed from the spec (tokens rule: with
// `workers.planned` workers).
uint64_t PlannedInnerSteps(const JobSpec& spec);

// Fields of a spec that `job update` may change while the job runs, in the order of the job file;
// "stop.*" is a whole section.
const std::vector<std::string>& MutableFields();
// True for these fields and for labels. `field` is a dotted path of a key or of a whole section.
bool IsMutableField(const std::string& field);

// Rule for the name of an evaluation task: 1 to 63 of letters, digits, '_', '-' and '.'.
bool IsTaskName(const std::string& name);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_JOB_VALIDATION_H_
