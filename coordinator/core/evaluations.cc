// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/evaluations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/plan/slow_step.h"
#include "coordinator/core/rounds.h"

namespace atl {
namespace {

constexpr Duration kMinimum = Seconds(60);  // added to the estimate from the worker's pace
constexpr Duration kExampleMinimum = Milliseconds(250);
constexpr Duration kHour = Seconds(3600);
constexpr Duration kDay = Seconds(86'400);
constexpr uint64_t kTextsOfAnExample = 4;  // of HellaSwag; texts of other tasks are fewer or shorter

bool Every(uint32_t rounds, Version version) { return rounds != 0 && version.value % rounds == 0; }

}  // namespace

bool EvaluationIsDue(const EvaluationSpec& rule, Version version) {
  return Every(rule.every_rounds, version) || (!rule.tasks.empty() && Every(rule.tasks_every_rounds, version));
}

bool EvaluationIsOwed(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version) {
  const uint64_t newest = std::max(NewestMultiple(rule.every_rounds, version),
                                   rule.tasks.empty() ? 0 : NewestMultiple(rule.tasks_every_rounds, version));
  return newest > 0 && std::none_of(done.begin(), done.end(), [&](const EvaluationRecord& made) {
           return made.versions.front().value >= newest;
         });
}

bool TasksAreDue(const EvaluationSpec& rule, const std::vector<EvaluationRecord>& done, Version version, bool last) {
  if (rule.tasks.empty()) return false;
  const auto scored =
      std::find_if(done.rbegin(), done.rend(), [](const EvaluationRecord& r) { return !r.tasks.empty(); });
  if (scored == done.rend() || last) return true;
  if (rule.tasks_every_rounds == 0) return false;
  return version.value / rule.tasks_every_rounds != scored->versions.front().value / rule.tasks_every_rounds;
}

bool FitTheTasks(const EvaluationSpec& rule, const std::vector<TaskScore>& scores) {
  return std::equal(scores.begin(), scores.end(), rule.tasks.begin(), rule.tasks.end(),
                    [](const TaskScore& score, const EvaluationTaskSpec& task) {
                      return score.name == task.name && score.examples == task.examples;
                    });
}

std::string WhyImpossible(const JobSpec& spec, uint64_t samples, const EvaluationDone& done) {
  const uint64_t most = samples * spec.data.sequence_length;
  if (done.tokens == 0 || done.tokens > most)
    return absl::StrCat("its answer is of ", done.tokens, " tokens, and it was given ", most);
  const auto nll = static_cast<uint64_t>(std::max<int64_t>(0, done.nll_micro_nats));
  if (done.nll_micro_nats < 0 || nll / done.tokens > static_cast<uint64_t>(limits::kMostLossMicro))
    return absl::StrCat("its answer is ", done.nll_micro_nats, " millionths of a nat for ", done.tokens, " tokens");
  if (done.text_bytes / done.tokens > limits::kTextBytes)
    return absl::StrCat("its answer is of ", done.text_bytes, " bytes of text in ", done.tokens, " tokens");
  return "";
}

uint64_t EvaluationSamples(const JobSpec& spec) {
  return std::max<uint64_t>(1, spec.evaluation.max_tokens / std::max(1u, spec.data.sequence_length));
}

Duration EvaluationAllowance(const JobSpec& spec, bool score_tasks, Duration step) {
  if (step.ns == 0) step = SlowStep(spec);
  const uint64_t batch = std::max(1u, spec.batch.sequences_per_step);
  const Duration allowed = kMinimum + std::min(kDay, TimesAtMostADay(step, EvaluationSamples(spec) / batch + 1) * 2);
  if (!score_tasks) return allowed;
  uint64_t examples = 0;
  for (const EvaluationTaskSpec& task : spec.evaluation.tasks) examples += task.examples;
  const Duration texts = step * static_cast<int64_t>(kTextsOfAnExample) / static_cast<int64_t>(batch);
  return allowed + TimesAtMostADay(kExampleMinimum + texts, examples);
}

Duration EvaluationExtension(Duration allowance, uint32_t times) {
  if (allowance >= kHour) return allowance;
  return std::min(kHour, allowance * (int64_t{1} << std::min(times, 16u)));
}

}  // namespace atl
