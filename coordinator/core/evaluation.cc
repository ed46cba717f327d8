// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/evaluation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/ledger_fold.h"
#include "common/plan/limits.h"
#include "common/plan/slow_step.h"
#include "coordinator/core/rounds.h"

namespace atl {
namespace {

constexpr uint32_t kTries = 5;              // then it is skipped and the job goes on
constexpr Duration kRetry = Seconds(5);     // for a retry by the same worker; doubled each time
constexpr Duration kMinimum = Seconds(60);  // added to the estimate from the worker's pace
constexpr Duration kExampleMinimum = Milliseconds(250);
constexpr Duration kHour = Seconds(3600);
constexpr Duration kDay = Seconds(86'400);
constexpr uint64_t kTextsOfAnExample = 4;  // of HellaSwag; texts of other tasks are fewer or shorter

bool Every(uint32_t rounds, Version version) { return rounds != 0 && version.value % rounds == 0; }

bool SameResult(const EvaluationDone& a, const EvaluationDone& b) {
  return a.nll_micro_nats == b.nll_micro_nats && a.tokens == b.tokens && a.text_bytes == b.text_bytes &&
         a.tasks == b.tasks;
}

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

std::string WhyImpossible(const EvaluationSpec& rule, const std::vector<TaskScore>& scores) {
  const auto fits = [](const TaskScore& score, const EvaluationTaskSpec& task) {
    return score.name == task.name && score.examples == task.examples;
  };
  if (!std::equal(scores.begin(), scores.end(), rule.tasks.begin(), rule.tasks.end(), fits))
    return "its answer lacks the scores of evaluation.tasks";
  for (const TaskScore& score : scores) {
    const uint64_t correct = std::max(score.correct, score.correct_per_byte.value_or(0));
    if (correct > score.examples)
      return absl::StrCat("its answer has ", correct, " right answers of ", score.examples, " examples of task ",
                          score.name);
  }
  return "";
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

void Evaluation::Start(uint64_t number) {
  if (!pending_) pending_ = Pending{.number = number};
}

void Evaluation::Restart(uint64_t number) {
  if (pending_) pending_ = Pending{.number = number};
}

void Evaluation::RollBack(const VersionVector& versions) {
  DropUndone(done_, versions);
  pending_.reset();
  made_.reset();
  skipped_.clear();
}

void Evaluation::ForgiveTries() {
  if (pending_) pending_->tries = 0;
}

bool Evaluation::Waits(bool holder_is_able, Instant now) const {
  if (!IsHeld()) return !pending_;
  return holder_is_able && pending_->held->failure.empty() && now < pending_->held->deadline;
}

EvaluationStep Evaluation::Advance(const EvaluationFacts& facts, Instant now) {
  EvaluationStep step;
  if (Waits(facts.holder_is_able, now)) return step;
  if (IsHeld()) {
    step.extended = Extend(facts, now);
    if (step.extended) return step;
    step.taken = Take(facts.versions, now);
    if (!pending_) return step;
  }
  const Evaluator* const next = Next(facts.evaluators);
  if (next == nullptr || (next->worker == pending_->failed && now < pending_->retry_at)) return step;
  Give(*next, facts, now);
  step.given = next->worker;
  return step;
}

// If no other worker is available, taking the evaluation from a busy worker would only discard its progress.
std::optional<Duration> Evaluation::Extend(const EvaluationFacts& facts, Instant now) {
  const bool is_making = facts.holder_is_able && facts.holder_is_busy && pending_->held->failure.empty();
  if (!is_making || pending_->tries + 1 >= kTries) return std::nullopt;
  const Evaluator* const next = Next(facts.evaluators);
  if (next == nullptr || next->worker != pending_->held->worker) return std::nullopt;
  const Duration more = EvaluationExtension(Allowance(facts.spec, *next), ++pending_->tries);
  pending_->held->deadline = now + more;
  return more;
}

EvaluationTaken Evaluation::Take(const VersionVector& versions, Instant now) {
  const Held held = *std::exchange(pending_->held, std::nullopt);
  pending_->failed = held.failure.empty() ? WorkerId{} : held.worker;
  pending_->retry_at = now + kRetry * (int64_t{1} << pending_->tries);
  const uint32_t tries = ++pending_->tries;
  EvaluationTaken taken{pending_->number, held.worker, held.failure, now - held.given, tries, tries >= kTries};
  if (!taken.skipped) return taken;
  skipped_ = versions;
  pending_.reset();
  return taken;
}

// A worker that only evaluates gets every evaluation, even if it has to be waited for, unless it has just failed and
// there is a trainer. The trainers take turns.
const Evaluator* Evaluation::Next(const std::vector<Evaluator>& evaluators) const {
  const Evaluator *first = nullptr, *after = nullptr, *failed = nullptr;
  for (const Evaluator& evaluator : evaluators) {
    const Evaluator* const ready = evaluator.is_ready ? &evaluator : nullptr;
    if (evaluator.evaluates_only) {
      if (evaluator.worker != pending_->failed) return ready;
      failed = ready;
      continue;
    }
    if (first == nullptr) first = ready;
    if (after == nullptr && last_ < evaluator.worker) after = ready;
  }
  if (after != nullptr) return after;
  return first != nullptr ? first : failed;
}

void Evaluation::Give(const Evaluator& to, const EvaluationFacts& facts, Instant now) {
  if (pending_->versions != facts.versions) pending_->asked.clear();
  pending_->versions = facts.versions;
  pending_->asked.insert(to.worker);
  pending_->clock_step = facts.clock_step;
  pending_->score_tasks = TasksAreDue(facts.spec.evaluation, done_, facts.versions[0], facts.is_last);
  pending_->held = Held{to.worker, now, now + Allowance(facts.spec, to), {}};
  last_ = to.worker;
}

Duration Evaluation::Allowance(const JobSpec& spec, const Evaluator& worker) const {
  return EvaluationAllowance(spec, pending_->score_tasks, worker.step);
}

EvaluationAnswer Evaluation::Hear(const WorkerId& worker, const EvaluationDone& message, const JobSpec& spec,
                                  uint64_t samples, EvaluationRecord record) {
  if (made_ && made_->by == worker && made_->done.evaluation == message.evaluation) {
    if (!message.failure.empty() || made_->contradicted || SameResult(message, made_->done))
      return EvaluationAnswer::kIgnored;
    made_->contradicted = true;
    return EvaluationAnswer::kContradicted;
  }
  if (!pending_ || message.evaluation != pending_->number || !pending_->asked.contains(worker))
    return EvaluationAnswer::kIgnored;
  std::string failure = message.failure;
  if (failure.empty() && pending_->score_tasks) failure = WhyImpossible(spec.evaluation, message.tasks);
  if (failure.empty()) failure = WhyImpossible(spec, samples, message);
  if (!failure.empty()) {
    if (IsWith(worker)) Fail(std::move(failure));
    return EvaluationAnswer::kIgnored;
  }
  made_ = Made{worker, message};
  record.evaluation = message.evaluation;
  record.clock_step = pending_->clock_step;
  record.versions = pending_->versions;
  record.nll_micro_nats = message.nll_micro_nats;
  record.tokens = message.tokens;
  record.text_bytes = message.text_bytes;
  if (pending_->score_tasks) record.tasks = message.tasks;
  done_.push_back(std::move(record));
  pending_.reset();
  return EvaluationAnswer::kRecorded;
}

void Evaluation::Fail(std::string why) { pending_->held->failure = std::move(why); }

void Evaluation::Excuse(Duration time, Instant now) {
  if (!IsHeld()) return;
  pending_->held->given = std::min(pending_->held->given + time, now);
  pending_->held->deadline = pending_->held->deadline + time;
}

bool Evaluation::IsWanted(const EvaluationSpec& rule, const VersionVector& versions) const {
  if (versions == skipped_) return false;
  if (done_.empty() || done_.back().versions != versions) return true;
  return done_.back().tasks.empty() && TasksAreDue(rule, done_, versions[0], true);
}

Instant Evaluation::Wake(Instant now) const {
  if (!pending_) return kNever;
  const Instant deadline = pending_->held ? pending_->held->deadline : kNever;
  return pending_->retry_at > now ? std::min(deadline, pending_->retry_at) : deadline;
}

EvaluationAssigned Evaluation::Assignment(const JobId& job, uint64_t samples) const {
  return {job, pending_->number, pending_->versions, samples, pending_->score_tasks};
}

}  // namespace atl
