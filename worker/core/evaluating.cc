// Evaluations: the outer copies at assigned versions on held-out samples, then, piece by piece, on the job's tasks.
#include <algorithm>
#include <utility>

#include "worker/core/state.h"

namespace atl::worker {
namespace {

constexpr uint64_t kExamplesAtOnce = 16;  // of a task, between two looks at what else is to be done

}  // namespace

void Core::State::OnEvaluationAssigned(const EvaluationAssigned& wanted) {
  if (phase != Phase::kActive || wanted.versions.size() != fragments.size()) return;
  if (evaluation && evaluation->running) return;
  evaluation = EvaluationWanted{wanted, now + options.evaluation_patience, false, false, {}};
}

// True while an evaluation holds training up: its versions are on their way, or it runs.
bool Core::State::TryEvaluate() {
  if (!evaluation) return false;
  const VersionVector& versions = evaluation->assigned.versions;
  bool beyond = false, there = true;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    beyond = beyond || fragments[p].outer > versions[p];
    there = there && fragments[p].installed && fragments[p].outer == versions[p];
  }
  if (there) {
    evaluation->running = evaluation->asked = true;
    SetWaiting("");
    effects.push_back(Evaluate{evaluation->assigned.evaluation, evaluation->assigned.samples});
    return true;
  }
  if (beyond || now >= evaluation->deadline) {
    Tell(NoteLevel::kWarning, "evaluation not possible",
         absl::StrCat(
             "evaluation ", evaluation->assigned.evaluation, " of job ", job.value,
             beyond ? ": this worker's outer copies are newer already" : ": its versions did not come in time"));
    evaluation.reset();
    return false;
  }
  SetWaiting(absl::StrCat("the versions of evaluation ", evaluation->assigned.evaluation));
  WakeAt(evaluation->deadline);
  return true;
}

void Core::State::OnEvaluationFinished(const EvaluationFinished& finished) {
  if (!evaluation || !evaluation->running || evaluation->assigned.evaluation != finished.evaluation) return;
  evaluation->asked = false;
  evaluation->done =
      EvaluationDone{job, finished.evaluation, finished.nll_micro_nats, finished.tokens, finished.text_bytes, {}};
  if (!evaluation->assigned.score_tasks || spec->evaluation.tasks.empty()) SayEvaluation();
}

// The next piece of the tasks; between two of them everything else gets its turn, leaving above all.
void Core::State::ContinueEvaluation() {
  if (evaluation->asked) return;
  const std::vector<EvaluationTaskSpec>& tasks = spec->evaluation.tasks;
  std::vector<TaskScore>& scores = evaluation->done.tasks;
  if (scores.empty() || scores.back().examples == tasks[scores.size() - 1].examples) {
    scores.push_back(TaskScore{tasks[scores.size()].name});
  }
  const auto task = static_cast<uint32_t>(scores.size() - 1);
  const uint64_t first = scores.back().examples;
  evaluation->asked = true;
  effects.push_back(ScoreTask{evaluation->assigned.evaluation, task, first,
                              std::min<uint64_t>(kExamplesAtOnce, tasks[task].examples - first)});
}

void Core::State::OnTaskScored(const TaskScored& scored) {
  if (!evaluation || !evaluation->asked || evaluation->assigned.evaluation != scored.evaluation) return;
  evaluation->asked = false;
  const std::vector<EvaluationTaskSpec>& tasks = spec->evaluation.tasks;
  TaskScore& score = evaluation->done.tasks.back();
  const uint64_t all = tasks[evaluation->done.tasks.size() - 1].examples;
  score.examples += std::min<uint64_t>(kExamplesAtOnce, all - score.examples);
  score.correct += scored.correct;
  if (scored.correct_per_byte) score.correct_per_byte = score.correct_per_byte.value_or(0) + *scored.correct_per_byte;
  if (score.examples == all && evaluation->done.tasks.size() == tasks.size()) SayEvaluation();
}

void Core::State::SayEvaluation() {
  EvaluationDone done = std::move(evaluation->done);
  evaluation.reset();
  if (welcomed) {
    SayIt(std::move(done));
  } else {
    unsaid_evaluation = std::move(done);
  }
}

void Core::State::OnEvaluationFailed(const EvaluationFailed& failed_one) {
  if (!evaluation || evaluation->assigned.evaluation != failed_one.evaluation) return;
  Tell(NoteLevel::kWarning, "evaluation failed",
       absl::StrCat("evaluation ", failed_one.evaluation, " of job ", job.value, ": ", failed_one.reason));
  evaluation.reset();
}

}  // namespace atl::worker
