// SPDX-License-Identifier: Apache-2.0
// Rolls back to a checkpoint. The checkpoint is read completely first, so that a damaged one causes a
// refusal without any change.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

absl::StatusOr<const CheckpointRecord*> CheckRollback(const Run& run, const CoreContext& core, uint64_t step) {
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
    const JobId* const heir = core.heir_of(run.id(), later->first);
    if (heir == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from the checkpoint at step ",
                                                      later->first, " of job ", id, ", which a rollback to step ", step,
                                                      " drops; go back once that job has its parameters"));
  }
  return checkpoint;
}

}  // namespace

std::optional<absl::Status> Job::Do(const JobRolledBack& e) {
  if (run_.rollback_request) return absl::UnavailableError("another rollback of the job is at work; try again");
  const absl::StatusOr<const CheckpointRecord*> checkpoint = CheckRollback(run_, core_, e.checkpoint_step);
  if (!checkpoint.ok()) return checkpoint.status();
  run_.rollback_request = e.request;
  run_.rollback_check = e.checkpoint_step;
  core_.out.tasks.push_back(CheckCheckpoint{e.job, e.checkpoint_step, (*checkpoint)->versions, (*checkpoint)->hashes});
  return std::nullopt;
}

void Job::On(const CheckpointChecked& e) {
  if (run_.rollback_check != e.step) return;
  run_.rollback_check.reset();
  absl::Status refusal = e.status;
  if (refusal.ok()) {
    const absl::StatusOr<const CheckpointRecord*> checkpoint = CheckRollback(run_, core_, e.step);
    if (checkpoint.ok()) return RollBack(**checkpoint);
    refusal = checkpoint.status();
  } else {
    refusal = absl::FailedPreconditionError(absl::StrCat("the checkpoint at step ", e.step,
                                                         " cannot be used, and nothing was ",
                                                         "changed: ", std::string(refusal.message())));
  }
  AnswerRollback(std::move(refusal));
}

void Job::AnswerRollback(absl::Status status) {
  if (!run_.rollback_request || run_.rollback_check) return;
  core_.Answer(*std::exchange(run_.rollback_request, {}), std::move(status), run_.id());
}

void Job::RollBack(const CheckpointRecord& checkpoint) {
  ++run_.record.epoch;
  CheckpointEffects later = run_.checkpoints.DropAfter(checkpoint.step);
  const size_t dropped = later.tasks.size();
  run_.record.reason = absl::StrCat(
      "set back to step ", checkpoint.step,
      dropped == 0 ? ""
                   : absl::StrCat(", ", dropped, dropped == 1 ? " later checkpoint" : " later checkpoints", " dropped"),
      "; it waits for job resume");
  run_.touched = true;
  for (size_t p = 0; p < run_.rounds.size(); ++p) {
    run_.rounds[p].RollBack(checkpoint.versions[p], checkpoint.hashes.size() > p ? checkpoint.hashes[p] : Digest{});
    run_.published[p] = {};
    OpenRound(FragmentIndex{static_cast<uint32_t>(p)});
  }
  run_.claims.Clear();
  run_.remarks.Clear();
  run_.progress.Recover(run_.Versions(), run_.PeriodsSinceRounds());
  run_.log_damage.clear();  // of discarded rounds
  SettleRevoked();
  run_.pool.RollBack(checkpoint.pool_frontier);
  run_.clock_floor = checkpoint.step;
  run_.participants.clear();
  run_.replicas = {};  // of discarded versions
  run_.evaluation.RollBack(checkpoint.versions);
  if (EvaluationIsOwed(run_.spec->evaluation, run_.evaluation.done(), run_.rounds[0].version())) StartEvaluation();
  run_.no_room.clear();
  run_.loaded = false;
  run_.loading = true;
  core_.out.records.push_back(RollbackRecord{run_.id(), run_.record.epoch, checkpoint.versions});
  core_.out.tasks.push_back(RestoreCheckpoint{run_.id(), checkpoint.step, run_.record.epoch});
  core_.Note(run_.id(), "rolled back",
             absl::StrCat("back to the checkpoint at step ", checkpoint.step, ", epoch ", run_.record.epoch),
             {{"step", absl::StrCat(checkpoint.step)}, {"epoch", absl::StrCat(run_.record.epoch)}});
  core_.Add(std::move(later));
}

}  // namespace atl
