// SPDX-License-Identifier: Apache-2.0
// Rolls back to a checkpoint. It is read completely first, so that a damaged one causes a refusal
// without any change.
#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {

std::optional<absl::Status> Machine::Do(Run& run, const JobRolledBack& e) {
  if (run.rollback_request) return absl::UnavailableError("another rollback of the job is at work; try again");
  const absl::StatusOr<const CheckpointRecord*> checkpoint = CheckRollback(run, e.checkpoint_step);
  if (!checkpoint.ok()) return checkpoint.status();
  run.rollback_request = e.request;
  run.rollback_check = e.checkpoint_step;
  core_.out.tasks.push_back(CheckCheckpoint{e.job, e.checkpoint_step, (*checkpoint)->versions, (*checkpoint)->hashes});
  return std::nullopt;
}

absl::StatusOr<const CheckpointRecord*> Machine::CheckRollback(const Run& run, uint64_t step) const {
  const std::string& id = run.id().value;
  if (HasEnded(run.record.state)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", id, " is ", NameOf(run.record.state),
                                                      ", and what has ended stays; submit a new job that starts from "
                                                      "its checkpoint"));
  }
  if (run.record.state != JobState::kPaused) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", NameOf(run.record.state), "; pause it before a rollback"));
  }
  ATOLL_ASSIGN_OR_RETURN(const CheckpointRecord* const checkpoint, run.FinishedCheckpoint(step));
  if (run.HasUploads() || run.loading || run.IsMerging())
    return absl::UnavailableError("a round is being closed or parameters are being loaded; try again");
  const auto& checkpoints = run.checkpoints.records();
  for (auto later = checkpoints.upper_bound(step); later != checkpoints.end(); ++later) {
    const JobId* const heir = HeirOf(runs_, run.id(), later->first);
    if (heir == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from the checkpoint at step ",
                                                      later->first, " of job ", id, ", which a rollback to step ", step,
                                                      " drops; go back once that job has its parameters"));
  }
  return checkpoint;
}

void Machine::On(Run& run, const CheckpointChecked& e) {
  if (run.rollback_check != e.step) return;
  run.rollback_check.reset();
  absl::Status refusal = e.status;
  if (refusal.ok()) {
    const absl::StatusOr<const CheckpointRecord*> checkpoint = CheckRollback(run, e.step);
    if (checkpoint.ok()) return RollBack(run, **checkpoint);
    refusal = checkpoint.status();
  } else {
    refusal = absl::FailedPreconditionError(absl::StrCat("the checkpoint at step ", e.step,
                                                         " cannot be used, and nothing was ",
                                                         "changed: ", std::string(refusal.message())));
  }
  core_.Answer(*run.rollback_request, std::move(refusal), run.id());
  run.rollback_request.reset();
}

void Machine::RollBack(Run& run, const CheckpointRecord& checkpoint) {
  ++run.record.epoch;
  CheckpointEffects later = run.checkpoints.DropAfter(checkpoint.step);
  const size_t dropped = later.tasks.size();
  run.record.reason = absl::StrCat(
      "set back to step ", checkpoint.step,
      dropped == 0 ? ""
                   : absl::StrCat(", ", dropped, dropped == 1 ? " later checkpoint" : " later checkpoints", " dropped"),
      "; it waits for job resume");
  run.touched = true;
  for (size_t p = 0; p < run.rounds.size(); ++p) {
    run.rounds[p].RollBack(checkpoint.versions[p], checkpoint.hashes.size() > p ? checkpoint.hashes[p] : Digest{});
    run.published[p] = {};
    OpenRound(run, FragmentIndex{static_cast<uint32_t>(p)});
  }
  run.claims.Clear();
  run.remarks.Clear();
  run.progress.Recover(run.Versions(), run.PeriodsSinceRounds());
  run.log_damage.clear();  // of discarded rounds
  SettleRevoked(run);
  run.pool.RollBack(checkpoint.pool_frontier);
  run.clock_floor = checkpoint.step;
  run.participants.clear();
  run.replicas = {};  // of discarded versions
  run.evaluation.RollBack(checkpoint.versions);
  if (EvaluationIsOwed(run.spec->evaluation, run.evaluation.done(), run.rounds[0].version())) StartEvaluation(run);
  run.no_room.clear();
  run.loaded = false;
  run.loading = true;
  core_.out.records.push_back(RollbackRecord{run.id(), run.record.epoch, checkpoint.versions});
  core_.out.tasks.push_back(RestoreCheckpoint{run.id(), checkpoint.step, run.record.epoch});
  core_.Note(run.id(), "rolled back",
             absl::StrCat("back to the checkpoint at step ", checkpoint.step, ", epoch ", run.record.epoch),
             {{"step", absl::StrCat(checkpoint.step)}, {"epoch", absl::StrCat(run.record.epoch)}});
  core_.Add(std::move(later));
}

}  // namespace atl
