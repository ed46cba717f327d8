// SPDX-License-Identifier: Apache-2.0
// When evaluations are made, which of them score the job's tasks, and how long a worker may take. Pure functions of the
// spec and of what was recorded, so that a restart decides likewise.
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

// A commit that brings fragment 0 to `version` calls for an evaluation.
bool EvaluationIsDue(const EvaluationSpec& rule, Version version);

// The newest commit up to `version` that called for an evaluation has none in `done`: those so far, by number, that no
// rollback has undone.
bool EvaluationIsOwed(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version);

// An evaluation of fragment 0's `version` scores the tasks: the first, the last, and one in each
// `tasks_every_rounds` versions. `done`: as above.
bool TasksAreDue(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version, bool last);

// One score for each task, in order, of as many examples as the job has.
bool FitTheTasks(const EvaluationSpec& rule, const std::vector<TaskScore>& scores);

// Why the figures cannot be those of an evaluation of so many held-out samples; empty: they may be.
std::string WhyImpossible(const JobSpec& spec, uint64_t samples, const EvaluationDone& done);

// Held-out samples of one evaluation, at least 1.
uint64_t EvaluationSamples(const JobSpec& spec);

// How long a worker whose inner step takes `step` (0: not known; then by the size of the model, for a very slow
// machine) may be at an evaluation: generous, since whoever is lost is noticed otherwise, and at most about two days.
Duration EvaluationAllowance(const JobSpec& spec, bool score_tasks, Duration step);

// What a worker gets once that has passed `times` times, is at it and nobody else can make it: twice as long each time,
// but no more than an hour, or than the allowance where that is longer.
Duration EvaluationExtension(Duration allowance, uint32_t times);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_EVALUATIONS_H_
