// SPDX-License-Identifier: Apache-2.0
// The semantic rules of a job: every violation at once, the same code in the command line and in the coordinator.
#ifndef ATOLL_COMMON_PLAN_JOB_VALIDATION_H_
#define ATOLL_COMMON_PLAN_JOB_VALIDATION_H_

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

struct Violation {
  std::string field;    // dotted path as in the job file: "sync.inner_steps"
  std::string problem;  // what is wrong, the bound, and what to do, as one clause
};

// All violations, in the order of the job file; empty means valid. Reads no file and no clock.
// When `before_submit`, things that the command line fills in (manifest, tokenizer, name) may still be absent.
std::vector<Violation> ValidateJobSpec(const JobSpec& spec, bool before_submit);

// Fills in everything that is fixed at submit and nothing else: sizes that are 0, outer defaults from planned workers
// and outer steps, planned steps of the schedule. `tokenizer_vocab` is the corpora's. Requires a valid spec. Returns a
// line for the user for each value chosen that they may want to know ("outer momentum 0.6: fewer than 200 outer
// steps").
std::vector<std::string> ResolveDefaults(JobSpec& spec, uint32_t tokenizer_vocab);

// Inner steps on the job clock until the stop rule, from the spec alone (tokens rule: with `workers.planned` workers).
uint64_t PlannedInnerSteps(const JobSpec& spec);

// What `job update` may change of a spec in mid-run, in the order of the job file; "stop.*" is all of a section.
const std::vector<std::string>& MutableFields();
// True for those and for labels; `field` is a dotted path, of a key or of a whole section.
bool IsMutableField(const std::string& field);

// 1 to 63 of letters, digits, '_', '-' and '.': what an evaluation task may be called.
bool IsTaskName(const std::string& name);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_JOB_VALIDATION_H_
