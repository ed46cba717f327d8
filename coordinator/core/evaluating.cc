// SPDX-License-Identifier: Apache-2.0
// Carries out what Evaluation (evaluation.h) decides: sends, logs, and the rounds that do not wait for an evaluator.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

uint64_t SamplesToEvaluate(const Run& run) {
  return std::min(EvaluationSamples(*run.spec), run.record.held_out_samples);
}

std::vector<Evaluator> EvaluatorsOf(const Run& run, const Fleet& fleet) {
  std::vector<Evaluator> evaluators;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    const bool fetches_late = member.stage() == Stage::kFetching && member.fetch_reports() > 0;
    if (member.lost() || member.draining() || fetches_late) continue;
    const bool ready = member.stage() == Stage::kTraining && (member.record().evaluate_only || member.connection());
    evaluators.push_back(
        {id, member.record().evaluate_only, ready, Duration{std::max<int64_t>(0, member.heartbeat().step_ns)}});
  }
  return evaluators;
}

}  // namespace

void Job::Hear(Member& member, const EvaluationDone& message) {
  const WorkerId& worker = member.record().worker;
  const WorkerId holder = run_.evaluation.holder();
  EvaluationRecord record;
  record.job = run_.id();
  record.trained_tokens = run_.tokens_committed;
  record.wall_nanos = core_.wall_nanos;
  switch (run_.evaluation.Hear(worker, message, *run_.spec, SamplesToEvaluate(run_), std::move(record))) {
    case EvaluationAnswer::kIgnored: return;
    case EvaluationAnswer::kContradicted:
      return core_.Note(run_.id(), kContradicted,
                        absl::StrCat("worker ", worker.value, " says another result of evaluation ", message.evaluation,
                                     " than before; the first stands"),
                        {{"worker", worker.value}});
    case EvaluationAnswer::kRecorded: break;
  }
  if (!holder.value.empty()) AllowAfresh(holder);
  const EvaluationRecord& made = run_.evaluation.done().back();
  run_.record.next_evaluation = made.evaluation + 1;
  run_.touched = true;
  core_.out.records.push_back(made);
  core_.Note(run_.id(), "evaluation",
             absl::StrCat("evaluation ", made.evaluation, " at step ", made.clock_step, " by ", worker.value),
             {{"evaluation", absl::StrCat(made.evaluation)},
              {"nll_micro_nats", absl::StrCat(made.nll_micro_nats)},
              {"tokens", absl::StrCat(made.tokens)},
              {"text_bytes", absl::StrCat(made.text_bytes)},
              {"worker", worker.value}});
}

void Job::StartEvaluation() {
  if (run_.record.held_out_samples > 0) run_.evaluation.Start(run_.record.next_evaluation);
}

void Job::AdvanceEvaluation() {
  if (!run_.loaded || !run_.Open()) return;
  const bool untouched =
      run_.rounds_committed == 0 && run_.evaluation.IsUntouched() && run_.rounds[0].accepted().empty();
  if (run_.record.state == JobState::kRunning && untouched) StartEvaluation();
  const WorkerId worker = run_.evaluation.holder();
  const Member* const holder = core_.fleet.Find(worker);
  const bool able = holder != nullptr && holder->record().job == run_.id() && !holder->lost();
  if (run_.evaluation.Waits(able, core_.now)) return;
  EvaluationFacts facts{*run_.spec, run_.Versions()};
  facts.is_last = run_.record.state == JobState::kClosing;
  facts.clock_step = facts.is_last ? ClockOf(run_, core_.fleet) : run_.clock_floor;
  facts.holder_is_able = able;
  facts.holder_is_busy =
      able && holder->heartbeat().job == run_.id() && holder->heartbeat().activity == WorkerActivity::kEvaluating;
  facts.evaluators = EvaluatorsOf(run_, core_.fleet);
  const EvaluationStep step = run_.evaluation.Advance(facts, core_.now);
  if (step.extended) {
    core_.Note(run_.id(), "evaluation waits",
               absl::StrCat("worker ", worker.value, " is at evaluation ", run_.evaluation.number(), " for ",
                            SecondsOf(run_.evaluation.HeldFor(core_.now)),
                            ", longer than its machine should take; nobody else can make it, so it has ",
                            SecondsOf(*step.extended), " more"),
               {{"worker", worker.value}});
  }
  if (step.taken) EvaluationTakenFrom(*step.taken, able);
  if (!step.given) return;
  const Member& evaluator = *core_.fleet.Find(*step.given);
  SendEvaluation(evaluator);
  if (facts.is_last || evaluator.record().evaluate_only) return;
  for (Round& round : run_.rounds) {
    if (!round.closing() && !round.accepted().contains(*step.given)) round.StopExpecting(*step.given);
  }
}

void Job::EvaluationTakenFrom(const EvaluationTaken& taken, bool holder_is_able) {
  const std::string why = !taken.failure.empty() ? absl::StrCat("could not make it: ", taken.failure)
                          : holder_is_able       ? absl::StrCat("has not made it in ", SecondsOf(taken.held))
                                                 : "is lost";
  core_.Note(run_.id(), "evaluation moves",
             absl::StrCat("evaluation ", taken.number, " is taken from worker ", taken.from.value, ", which ", why),
             {{"worker", taken.from.value}});
  if (holder_is_able) AllowAfresh(taken.from);  // the evaluation kept it from its own steps
  if (!taken.skipped) return;
  core_.Note(run_.id(), "evaluation left out",
             absl::StrCat("evaluation ", taken.number, " is left out: nobody has made it in ", taken.tries, " tries"));
}

void Job::SendEvaluation(const Member& member) {
  core_.SendTo(member, run_.evaluation.Assignment(run_.id(), SamplesToEvaluate(run_)));
}

}  // namespace atl
