// SPDX-License-Identifier: Apache-2.0
// The schedule of evaluations, of scoring the job's tasks, and the time allowed for a worker. Pure
// functions of the spec and the recorded state, so that a restart decides the same.
#ifndef ATOLL_COORDINATOR_CORE_EVALUATIONS_H_
#define ATOLL_COORDINATOR_CORE_EVALUATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"

namespace atl {

// Whether a commit that brings fragment 0 to `version` requires an evaluation.
bool EvaluationIsDue(const EvaluationSpec& rule, Version version);

// Whether the newest commit up to `version` that requires an evaluation has none in `done`: the
// evaluations so far, by number, without those undone by a rollback.
bool EvaluationIsOwed(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version);

// Whether an evaluation of fragment 0's `version` scores the tasks: the first, the last, and one in
// each `tasks_every_rounds` versions. `done`: as for EvaluationIsOwed.
bool TasksAreDue(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version, bool last);

// One score for each task, in order, with the job's number of examples.
bool FitTheTasks(const EvaluationSpec& rule, const std::vector<TaskScore>& scores);

// Why the figures cannot result from an evaluation of `samples` held-out samples; empty: they may.
std::string WhyImpossible(const JobSpec& spec, uint64_t samples, const EvaluationDone& done);

// Held-out samples of one evaluation, at least 1.
uint64_t EvaluationSamples(const JobSpec& spec);

// The time for an evaluation by a worker with the inner step time `step` (0: unknown; then
// estimated from the model's size for a very slow machine). Generous, because a lost worker is
// detected otherwise; at most about two days.
Duration EvaluationAllowance(const JobSpec& spec, bool score_tasks, Duration step);

// The extension after the allowance has passed `times` times, if the worker is busy with it and no
// other can take it. Doubles each time, up to the longer of an hour and the allowance.
Duration EvaluationExtension(Duration allowance, uint32_t times);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_EVALUATIONS_H_
