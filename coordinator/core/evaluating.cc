// SPDX-License-Identifier: Apache-2.0
// Assigns evaluations to workers, with deadlines, and handles the results.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/evaluations.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

constexpr uint32_t kEvaluationTries = 5;           // then it is left out and the job goes on
constexpr Duration kEvaluationRetry = Seconds(5);  // for a retry by the same worker; doubled each time

uint64_t SamplesToEvaluate(const Run& run) {
  return std::min(EvaluationSamples(*run.spec), run.record.held_out_samples);
}

bool SameResult(const EvaluationDone& a, const EvaluationDone& b) {
  return a.nll_micro_nats == b.nll_micro_nats && a.tokens == b.tokens && a.text_bytes == b.text_bytes &&
         a.tasks == b.tasks;
}

// For the pending evaluation.
Duration AllowanceOf(const Run& run, const Member& member) {
  return EvaluationAllowance(*run.spec, run.evaluation->score_tasks,
                             Duration{std::max<int64_t>(0, member.heartbeat.step_ns)});
}

}  // namespace

void Machine::Hear(Member& member, const EvaluationDone& message) {
  Run* run = RunOf(member);
  if (run == nullptr || message.job != run->id()) return;
  if (run->made && run->made->by == member.record.worker && run->made->done.evaluation == message.evaluation) {
    if (message.failure.empty() && !SameResult(message, run->made->done) && !run->made->contradicted) {
      run->made->contradicted = true;
      Note(run->id(), "evaluation contradicted",
           absl::StrCat("worker ", member.record.worker.value, " says another result of evaluation ",
                        message.evaluation, " than before; the first stands"),
           {{"worker", member.record.worker.value}});
    }
    return;
  }
  if (!run->evaluation || message.evaluation != run->evaluation->number ||
      !run->evaluation->asked.contains(member.record.worker)) {
    return;
  }
  if (!message.failure.empty()) {
    if (run->evaluation->holder == member.record.worker) run->evaluation->failure = message.failure;
    return;
  }
  const std::vector<TaskScore> scores = run->evaluation->score_tasks ? message.tasks : std::vector<TaskScore>{};
  if (run->evaluation->score_tasks && !FitTheTasks(run->spec->evaluation, scores)) {
    if (run->evaluation->holder == member.record.worker)
      run->evaluation->failure = "its answer lacks the scores of evaluation.tasks";
    return;
  }
  if (std::string why = WhyImpossible(*run->spec, SamplesToEvaluate(*run), message); !why.empty()) {
    if (run->evaluation->holder == member.record.worker) run->evaluation->failure = std::move(why);
    return;
  }
  run->made = MadeEvaluation{member.record.worker, message};
  EvaluationRecord record;
  record.job = run->id();
  record.evaluation = message.evaluation;
  record.clock_step = run->evaluation->clock_step;
  record.versions = run->evaluation->versions;
  record.nll_micro_nats = message.nll_micro_nats;
  record.tokens = message.tokens;
  record.text_bytes = message.text_bytes;
  record.trained_tokens = run->tokens_committed;
  record.wall_nanos = wall_nanos_;
  record.tasks = scores;
  if (!run->evaluation->holder.value.empty()) AllowAfresh(*run, run->evaluation->holder);
  run->evaluations.push_back(record);
  run->record.next_evaluation = message.evaluation + 1;
  run->touched = true;
  run->evaluation.reset();
  out_.records.push_back(record);
  Note(run->id(), "evaluation",
       absl::StrCat("evaluation ", message.evaluation, " at step ", record.clock_step, " by ",
                    member.record.worker.value),
       {{"evaluation", absl::StrCat(message.evaluation)},
        {"nll_micro_nats", absl::StrCat(message.nll_micro_nats)},
        {"tokens", absl::StrCat(message.tokens)},
        {"text_bytes", absl::StrCat(message.text_bytes)},
        {"worker", member.record.worker.value}});
}

bool Machine::WantsEvaluation(const Run& run) const {
  const VersionVector heads = run.Versions();
  if (run.record.held_out_samples == 0 || heads == run.not_evaluated) return false;
  if (run.evaluations.empty() || run.evaluations.back().versions != heads) return true;
  return run.evaluations.back().tasks.empty() && TasksAreDue(run.spec->evaluation, run.evaluations, heads[0], true);
}

void Machine::StartEvaluation(Run& run) {
  if (run.record.held_out_samples == 0 || run.evaluation) return;
  run.evaluation = PendingEvaluation{.number = run.record.next_evaluation};
}

void Machine::AdvanceEvaluation(Run& run) {
  if (!run.loaded || !run.Open()) return;
  const bool untouched = run.rounds_committed == 0 && run.evaluations.empty() && run.rounds[0].accepted().empty();
  if (run.record.state == JobState::kRunning && untouched && run.not_evaluated.empty()) StartEvaluation(run);
  if (!run.evaluation) return;
  if (!run.evaluation->holder.value.empty()) {
    const Member* holder = fleet_.Find(run.evaluation->holder);
    const bool able = holder != nullptr && holder->record.job == run.id() && !holder->lost;
    const bool hopeful = able && run.evaluation->failure.empty();
    if (hopeful && (now_ < run.evaluation->deadline || ProlongEvaluation(run, *holder))) return;
    TakeEvaluation(run, able);
    if (!run.evaluation) return;
  }
  Member* next = NextEvaluator(run);
  if (next == nullptr) return;
  const bool again = next->record.worker == run.evaluation->failed;
  if (!again || now_ >= run.evaluation->retry_at) GiveEvaluation(run, *next);
}

// If no other worker is available, taking the evaluation from a busy worker would only discard its progress.
bool Machine::ProlongEvaluation(Run& run, const Member& holder) {
  PendingEvaluation& pending = *run.evaluation;
  const bool at_it = holder.heartbeat.job == run.id() && holder.heartbeat.activity == WorkerActivity::kEvaluating;
  if (!at_it || pending.tries + 1 >= kEvaluationTries || NextEvaluator(run) != &holder) return false;
  const Duration more = EvaluationExtension(AllowanceOf(run, holder), ++pending.tries);
  pending.deadline = now_ + more;
  Note(run.id(), "evaluation waits",
       absl::StrCat("worker ", pending.holder.value, " is at evaluation ", pending.number, " for ",
                    SecondsOf(now_ - pending.given), ", longer than its machine should take; nobody else can make it, ",
                    "so it has ", SecondsOf(more), " more"),
       {{"worker", pending.holder.value}});
  return true;
}

void Machine::TakeEvaluation(Run& run, bool holder_is_able) {
  PendingEvaluation& pending = *run.evaluation;
  const std::string why = !pending.failure.empty() ? absl::StrCat("could not make it: ", pending.failure)
                          : holder_is_able ? absl::StrCat("has not made it in ", SecondsOf(now_ - pending.given))
                                           : "is lost";
  Note(run.id(), "evaluation moves",
       absl::StrCat("evaluation ", pending.number, " is taken from worker ", pending.holder.value, ", which ", why),
       {{"worker", pending.holder.value}});
  if (holder_is_able) AllowAfresh(run, pending.holder);  // the evaluation kept it from its own steps
  pending.failed = pending.failure.empty() ? WorkerId{} : pending.holder;
  pending.retry_at = now_ + kEvaluationRetry * (int64_t{1} << pending.tries);
  pending.holder = {};
  if (++pending.tries < kEvaluationTries) return;
  Note(run.id(), "evaluation left out",
       absl::StrCat("evaluation ", pending.number, " is left out: nobody has made it in ", pending.tries, " tries"));
  run.not_evaluated = run.Versions();
  run.evaluation.reset();
}

Member* Machine::NextEvaluator(const Run& run) {
  Member* first = nullptr;
  Member* after = nullptr;
  Member* failed = nullptr;
  for (auto& [id, member] : fleet_.Of(run.id())) {
    if (member.lost || member.draining) continue;
    // An evaluator gets every evaluation, even after the trainers in order. Exceptions: its fetch
    // is overdue, or it has just failed and there is a trainer.
    const bool waited_for = member.stage != Stage::kFetching || member.fetch_reports == 0;
    if (member.record.evaluate_only && waited_for) {
      Member* const ready = member.stage == Stage::kTraining ? &member : nullptr;
      if (id != run.evaluation->failed) return ready;
      failed = ready;
      continue;
    }
    if (member.stage != Stage::kTraining || !member.connection) continue;
    if (first == nullptr) first = &member;
    if (after == nullptr && run.last_evaluator < id) after = &member;
  }
  if (after != nullptr) return after;
  return first != nullptr ? first : failed;
}

void Machine::GiveEvaluation(Run& run, Member& member) {
  PendingEvaluation& pending = *run.evaluation;
  pending.holder = member.record.worker;
  if (pending.versions != run.Versions()) pending.asked.clear();
  pending.versions = run.Versions();
  pending.asked.insert(pending.holder);
  pending.clock_step = run.record.state == JobState::kClosing ? ClockOf(run) : run.clock_floor;
  const bool last = run.record.state == JobState::kClosing;
  pending.score_tasks = TasksAreDue(run.spec->evaluation, run.evaluations, pending.versions[0], last);
  pending.failure.clear();
  pending.given = now_;
  pending.deadline = now_ + AllowanceOf(run, member);
  run.last_evaluator = pending.holder;
  SendEvaluation(member, run);
  if (run.record.state == JobState::kClosing || member.record.evaluate_only) return;
  for (Round& round : run.rounds) {
    if (!round.closing() && !round.accepted().contains(pending.holder)) round.StopExpecting(pending.holder);
  }
}

void Machine::SendEvaluation(const Member& member, const Run& run) {
  SendTo(member, EvaluationAssigned{run.id(), run.evaluation->number, run.evaluation->versions, SamplesToEvaluate(run),
                                    run.evaluation->score_tasks});
}

}  // namespace atl
