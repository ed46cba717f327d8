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

// Returns all violations, roughly in the order of the job file; empty means valid. Reads no file and no clock. With
// `before_submit`, values that are filled in later may be missing: the hashes of manifests, and the names of the job,
// of corpora and of evaluation tasks.
std::vector<Violation> ValidateJobSpec(const JobSpec& spec, bool before_submit);

// Sets the values that a valid spec leaves to be chosen: sizes of the model that are 0, workers.planned, outer rate
// and momentum (from planned workers and outer steps), the schedule's total and WSD's decay steps, and the join
// warm-up. `tokenizer_vocab` is the vocabulary size of the corpora's tokenizer. Returns a line for the user for each
// value worth reporting ("outer_optimizer.momentum 0.9: the default"), and for a schedule that misses the stop rule.
std::vector<std::string> ResolveDefaults(JobSpec& spec, uint32_t tokenizer_vocab);

// Inner steps of the job clock until the earlier stop rule, computed from the spec. The tokens rule counts with
// workers.planned workers, or workers.min if that is 0. Returns 0 without a stop rule.
uint64_t PlannedInnerSteps(const JobSpec& spec);

// Fields of a spec that `job update` may change while the job runs, in the order of the job file;
// "stop.*" is a whole section.
const std::vector<std::string>& MutableFields();
// True for MutableFields() and for labels. `field` is a dotted path of a key or of a whole section.
bool IsMutableField(const std::string& field);

// Rule for the name of an evaluation task: 1 to 63 of letters, digits, '_', '-' and '.'.
bool IsTaskName(const std::string& name);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_JOB_VALIDATION_H_
