// SPDX-License-Identifier: Apache-2.0
// Evaluates the outer copies at assigned versions on held-out samples, then on the job's tasks, both in pieces.
#include <algorithm>
#include <utility>

#include "worker/core/state.h"

namespace atl::worker {
namespace {

// Piece sizes: other work, above all leaving, is checked between pieces.
constexpr uint64_t kSamplesAtOnce = 16;   // held-out
constexpr uint64_t kExamplesAtOnce = 16;  // of a task

constexpr int64_t kMostMicroNats = 9'000'000'000'000'000'000;  // limit over all pieces; each adds at most a ninth of it

constexpr uint64_t kSlowLinkBytesPerSecond = 1'250'000;  // 10 Mbit/s
constexpr uint64_t kMostSeconds = 2 * 86'400;

// The held-out samples in the next piece; 0: all are done.
uint64_t NextSamples(const EvaluationWanted& wanted) {
  return std::min(kSamplesAtOnce, wanted.assigned.samples - wanted.samples);
}

// The first fragment that is not ready for the evaluation; empty: all are.
std::string Missing(const VersionVector& versions, const std::vector<Fragment>& fragments) {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    const Fragment& f = fragments[p];
    const bool whole = f.absent() || f.leaping();
    if (whole && f.outer() == versions[p]) return absl::StrCat("fragment ", p, " is being fetched whole");
    if (whole || f.outer() != versions[p])
      return absl::StrCat("fragment ", p, " is at ", f.outer().value, ", of ", versions[p].value);
    if (f.applying() != nullptr) return absl::StrCat("fragment ", p, " leaves ", f.outer().value);
  }
  return "";
}

// The download size of the missing versions.
uint64_t MissingBytes(const VersionVector& versions, const std::vector<Fragment>& fragments,
                      const std::vector<JobPrepared::FragmentSize>& sizes) {
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    const Fragment& f = fragments[p];
    if (f.absent() || f.leaping()) {
      bytes += sizes[p].whole_bytes;
    } else if (f.outer() < versions[p]) {
      bytes += std::min(sizes[p].whole_bytes, (versions[p].value - f.outer().value) * sizes[p].update_bytes);
    }
  }
  return bytes;
}

}  // namespace

// Training pauses during the wait for versions, so a training worker waits for a fixed time. The
// versions continue to arrive in parallel with later steps, and the coordinator requests the
// evaluation again. A worker that only evaluates waits as long as the transfer may take.
void Core::State::BeginPatience(EvaluationWanted& wanted) const {
  wanted.patience = options.evaluation_patience;
  wanted.why = "training is not stalled for longer";
  if (options.evaluate_only) {
    const uint64_t bytes = MissingBytes(wanted.assigned.versions, fragments, sizes);
    const uint64_t seconds = std::min(bytes / kSlowLinkBytesPerSecond * 2, kMostSeconds);
    wanted.patience = wanted.patience + Seconds(static_cast<int64_t>(seconds));
    wanted.why = absl::StrCat("the limit is ", ToSeconds(options.evaluation_patience), " s and twice the time of ",
                              bytes, " bytes at 10 Mbit/s");
  }
  wanted.deadline = now + wanted.patience;
}

void Core::State::OnEvaluationAssigned(const EvaluationAssigned& wanted) {
  if (phase != Phase::kActive || wanted.versions.size() != fragments.size()) return;
  // The same request after a reconnect: already in progress. For newer versions the evaluation
  // restarts, because only their result counts; a piece in progress is then useless.
  if (evaluation && evaluation->running && evaluation->assigned.evaluation == wanted.evaluation &&
      evaluation->assigned.versions == wanted.versions)
    return;
  if (HasMade(wanted)) {
    SayIt(made_evaluation->done);
    EndEvaluation();
    return;
  }
  const bool another = evaluation.has_value();
  evaluation = EvaluationWanted{.assigned = wanted, .done = {.job = job, .evaluation = wanted.evaluation}};
  BeginPatience(*evaluation);
  if (another) CatchUpFragments();
}

// Fragment p has the evaluated version and must keep it until the evaluation ends.
bool Core::State::EvaluationNeeds(uint32_t p) const {
  return evaluation && !fragments[p].absent() && fragments[p].outer() == evaluation->assigned.versions[p];
}

void Core::State::EndEvaluation() {
  if (!evaluation) return;
  evaluation.reset();
  CatchUpFragments();
}

bool Core::State::HasMade(const EvaluationAssigned& wanted) const {
  if (!made_evaluation || made_evaluation->done.evaluation != wanted.evaluation) return false;
  const bool scored = made_evaluation->done.tasks.size() == spec->evaluation.tasks.size();
  return made_evaluation->versions == wanted.versions && (scored || !wanted.score_tasks);
}

// True while an evaluation pauses training: its versions are being fetched, or it runs.
bool Core::State::TryEvaluate() {
  if (!evaluation) return false;
  const VersionVector& versions = evaluation->assigned.versions;
  const std::string missing = Missing(versions, fragments);
  if (missing.empty()) {
    evaluation->running = true;
    SetWaiting("");
    ContinueEvaluation();
    return true;
  }
  bool beyond = false;
  for (uint32_t p = 0; p < fragments.size(); ++p) beyond = beyond || fragments[p].outer() > versions[p];
  if (beyond || now >= evaluation->deadline) {
    const std::string why = beyond ? "this worker's outer copies are already newer"
                                   : absl::StrCat("waited ", ToSeconds(evaluation->patience), " s for its versions; ",
                                                  missing, "; ", evaluation->why);
    Tell(NoteLevel::kWarning, "evaluation not possible",
         absl::StrCat("evaluation ", evaluation->assigned.evaluation, " of job ", job.value, ": ", why));
    SayEvaluationFailed(why);
    return false;
  }
  SetWaiting(absl::StrCat("the versions of evaluation ", evaluation->assigned.evaluation));
  WakeAt(evaluation->deadline);
  return true;
}

void Core::State::OnHeldOutEvaluated(const HeldOutEvaluated& piece) {
  if (!evaluation || !evaluation->asked || evaluation->assigned.evaluation != piece.evaluation) return;
  OnPiece();
  const bool short_piece = piece.samples < NextSamples(*evaluation);
  evaluation->samples += piece.samples;
  // The sum of a diverged model may overflow: it is then the largest value.
  int64_t& sum = evaluation->done.nll_micro_nats;
  sum = piece.nll_micro_nats > kMostMicroNats - sum ? kMostMicroNats : sum + piece.nll_micro_nats;
  evaluation->done.tokens += piece.tokens;
  evaluation->done.text_bytes += piece.text_bytes;
  evaluation->held_out_done = short_piece || NextSamples(*evaluation) == 0;
  const bool tasks = evaluation->assigned.score_tasks && !spec->evaluation.tasks.empty();
  if (evaluation->held_out_done && !tasks) SayEvaluation();
}

void Core::State::OnPiece() {
  evaluation->asked = false;
  evaluation->delayed_since = kNever;
  SetWaiting("");
}

// A short outage does not discard finished pieces. The parameters must not change meanwhile, so the
// wait has a limit.
void Core::State::OnEvaluationDelayed(const EvaluationDelayed& delayed) {
  if (!evaluation || !evaluation->asked || evaluation->assigned.evaluation != delayed.evaluation) return;
  evaluation->asked = false;
  const bool first = evaluation->delayed_since == kNever;
  if (first) evaluation->delayed_since = now;
  const Duration waited = now - evaluation->delayed_since;
  if (waited >= options.evaluation_patience) {
    return OnEvaluationFailed({delayed.evaluation, absl::StrCat("waited ", ToSeconds(waited), " s; ", delayed.reason)});
  }
  evaluation->again_at = now + kFetchRepeat;
  SetWaiting(absl::StrCat("what evaluation ", delayed.evaluation, " reads: ", delayed.reason));
  if (!first) return;
  Tell(NoteLevel::kWarning, "evaluation delayed",
       absl::StrCat("evaluation ", delayed.evaluation, " of job ", job.value, ": ", delayed.reason, "; retrying"));
}

void Core::State::ContinueEvaluation() {
  if (evaluation->asked) return;
  // The parameters must not have changed: a sum over two sets would pass for the loss of one.
  if (const std::string missing = Missing(evaluation->assigned.versions, fragments); !missing.empty()) {
    SayEvaluationFailed(absl::StrCat("between two of its pieces: ", missing));
    WakeAt(now);
    return;
  }
  if (now < evaluation->again_at) return WakeAt(evaluation->again_at);
  evaluation->asked = true;
  if (!evaluation->held_out_done) {
    effects.push_back(Evaluate{evaluation->assigned.evaluation, evaluation->samples, NextSamples(*evaluation)});
    return;
  }
  const std::vector<EvaluationTaskSpec>& tasks = spec->evaluation.tasks;
  std::vector<TaskScore>& scores = evaluation->done.tasks;
  if (scores.empty() || scores.back().examples == tasks[scores.size() - 1].examples) {
    scores.push_back(TaskScore{tasks[scores.size()].name});
  }
  const auto task = static_cast<uint32_t>(scores.size() - 1);
  const uint64_t first = scores.back().examples;
  effects.push_back(ScoreTask{evaluation->assigned.evaluation, task, first,
                              std::min<uint64_t>(kExamplesAtOnce, tasks[task].examples - first)});
}

void Core::State::OnTaskScored(const TaskScored& scored) {
  if (!evaluation || !evaluation->asked || evaluation->assigned.evaluation != scored.evaluation) return;
  OnPiece();
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
  if (done.failure.empty()) made_evaluation = EvaluationMade{std::move(evaluation->assigned.versions), done};
  // Without a stream, it is sent when requested again for the same versions: a restarted
  // coordinator may want others.
  if (welcomed) SayIt(std::move(done));
  EndEvaluation();
}

void Core::State::OnEvaluationFailed(const EvaluationFailed& failed_one) {
  if (!evaluation || evaluation->assigned.evaluation != failed_one.evaluation) return;
  Tell(NoteLevel::kWarning, "evaluation failed",
       absl::StrCat("evaluation ", failed_one.evaluation, " of job ", job.value, ": ", failed_one.reason));
  SayEvaluationFailed(failed_one.reason);
}

void Core::State::SayEvaluationFailed(const std::string& why) {
  evaluation->done = {.job = job, .evaluation = evaluation->assigned.evaluation, .failure = why};
  SayEvaluation();
}

}  // namespace atl::worker
