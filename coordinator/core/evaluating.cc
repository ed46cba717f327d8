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

void Machine::Hear(Member& member, const EvaluationDone& message) {
  Run* run = RunOf(member);
  if (run == nullptr || message.job != run->id()) return;
  const WorkerId& worker = member.record().worker;
  const WorkerId holder = run->evaluation.holder();
  EvaluationRecord record;
  record.job = run->id();
  record.trained_tokens = run->tokens_committed;
  record.wall_nanos = core_.wall_nanos;
  switch (run->evaluation.Hear(worker, message, *run->spec, SamplesToEvaluate(*run), std::move(record))) {
    case EvaluationAnswer::kIgnored: return;
    case EvaluationAnswer::kContradicted:
      return core_.Note(run->id(), kContradicted,
                        absl::StrCat("worker ", worker.value, " says another result of evaluation ", message.evaluation,
                                     " than before; the first stands"),
                        {{"worker", worker.value}});
    case EvaluationAnswer::kRecorded: break;
  }
  if (!holder.value.empty()) AllowAfresh(*run, holder);
  const EvaluationRecord& made = run->evaluation.done().back();
  run->record.next_evaluation = made.evaluation + 1;
  run->touched = true;
  core_.out.records.push_back(made);
  core_.Note(run->id(), "evaluation",
             absl::StrCat("evaluation ", made.evaluation, " at step ", made.clock_step, " by ", worker.value),
             {{"evaluation", absl::StrCat(made.evaluation)},
              {"nll_micro_nats", absl::StrCat(made.nll_micro_nats)},
              {"tokens", absl::StrCat(made.tokens)},
              {"text_bytes", absl::StrCat(made.text_bytes)},
              {"worker", worker.value}});
}

void Machine::StartEvaluation(Run& run) {
  if (run.record.held_out_samples > 0) run.evaluation.Start(run.record.next_evaluation);
}

void Machine::AdvanceEvaluation(Run& run) {
  if (!run.loaded || !run.Open()) return;
  const bool untouched = run.rounds_committed == 0 && run.evaluation.IsUntouched() && run.rounds[0].accepted().empty();
  if (run.record.state == JobState::kRunning && untouched) StartEvaluation(run);
  const WorkerId worker = run.evaluation.holder();
  const Member* const holder = core_.fleet.Find(worker);
  const bool able = holder != nullptr && holder->record().job == run.id() && !holder->lost();
  if (run.evaluation.Waits(able, core_.now)) return;
  EvaluationFacts facts{*run.spec, run.Versions()};
  facts.is_last = run.record.state == JobState::kClosing;
  facts.clock_step = facts.is_last ? ClockOf(run, core_.fleet) : run.clock_floor;
  facts.holder_is_able = able;
  facts.holder_is_busy =
      able && holder->heartbeat().job == run.id() && holder->heartbeat().activity == WorkerActivity::kEvaluating;
  facts.evaluators = EvaluatorsOf(run, core_.fleet);
  const EvaluationStep step = run.evaluation.Advance(facts, core_.now);
  if (step.extended) {
    core_.Note(run.id(), "evaluation waits",
               absl::StrCat("worker ", worker.value, " is at evaluation ", run.evaluation.number(), " for ",
                            SecondsOf(run.evaluation.HeldFor(core_.now)),
                            ", longer than its machine should take; nobody else can make it, so it has ",
                            SecondsOf(*step.extended), " more"),
               {{"worker", worker.value}});
  }
  if (step.taken) EvaluationTakenFrom(run, *step.taken, able);
  if (!step.given) return;
  const Member& evaluator = *core_.fleet.Find(*step.given);
  SendEvaluation(evaluator, run);
  if (facts.is_last || evaluator.record().evaluate_only) return;
  for (Round& round : run.rounds) {
    if (!round.closing() && !round.accepted().contains(*step.given)) round.StopExpecting(*step.given);
  }
}

void Machine::EvaluationTakenFrom(Run& run, const EvaluationTaken& taken, bool holder_is_able) {
  const std::string why = !taken.failure.empty() ? absl::StrCat("could not make it: ", taken.failure)
                          : holder_is_able       ? absl::StrCat("has not made it in ", SecondsOf(taken.held))
                                                 : "is lost";
  core_.Note(run.id(), "evaluation moves",
             absl::StrCat("evaluation ", taken.number, " is taken from worker ", taken.from.value, ", which ", why),
             {{"worker", taken.from.value}});
  if (holder_is_able) AllowAfresh(run, taken.from);  // the evaluation kept it from its own steps
  if (!taken.skipped) return;
  core_.Note(run.id(), "evaluation left out",
             absl::StrCat("evaluation ", taken.number, " is left out: nobody has made it in ", taken.tries, " tries"));
}

void Machine::SendEvaluation(const Member& member, const Run& run) {
  core_.SendTo(member, run.evaluation.Assignment(run.id(), SamplesToEvaluate(run)));
}

}  // namespace atl
