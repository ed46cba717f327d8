// SPDX-License-Identifier: Apache-2.0
// Loading of parameters, and jobs that cannot continue for lack of data, or because a file is missing or
// damaged. A job that holds work stops with all its durable state, gives the reason, and continues on request.
#include "absl/strings/str_cat.h"
#include "common/plan/job_validation.h"
#include "coordinator/core/machine.h"

namespace atl {

void Job::Load() {
  core_.Add(run_.checkpoints.DropOvertaken(run_.Versions()));
  run_.checkpoints.Load(run_.spec->checkpoint, run_.rounds[0].version());
  if (run_.record.state == JobState::kClosing) run_.checkpoints.NotDue();  // the end has its own
  run_.loading = true;
  run_.replicas = {};
  core_.out.tasks.push_back(LoadTaskOf(run_));
}

void Job::Unload() {
  run_.loaded = false;
  run_.loading = false;
  run_.checkpoints.NotDue();
  run_.no_room.clear();
  // An acceptance stays valid: it is durable, and the round closes after the next Load.
  for (Round& round : run_.rounds) round.Reopen();
  core_.out.tasks.push_back(ReleaseJob{run_.id()});
}

void Job::Hold(const std::string& reason) {
  run_.ending = Ending::kNone;
  // A pending evaluation continues with the job; the end of an ending job requests its last one again.
  if (run_.record.state == JobState::kClosing) run_.evaluation.Drop();
  run_.evaluation.Restart(run_.record.next_evaluation);
  if (run_.record.state == JobState::kClosing) {
    run_.record.draining = false;
    run_.record.stop_step = PlannedInnerSteps(*run_.spec);
  }
  for (auto& [id, member] : core_.fleet.Of(run_.id())) Detach(member, "the job is paused");
  SetState(JobState::kPaused, reason);
}

void Job::BreakOff(const std::string& why) {
  if (!run_.HoldsWork()) return End(JobState::kFailed, why);
  Hold(absl::StrCat(kStopped, why, "; what was committed is kept: mend the cause, then 'atoll job resume ",
                    run_.id().value, "'"));
}

void Job::LiftBars() {
  for (auto& [id, member] : core_.fleet.members()) member.Unbar(run_.id());
  run_.failures.clear();
}

void Job::On(const ParametersReady& e) {
  if (!run_.loading) return;
  for (size_t p = 0; p < run_.rounds.size() && p < e.hashes.size(); ++p) {
    const Digest known = run_.rounds[p].hash();
    if (!known.IsZero() && known != e.hashes[p]) {
      return On(
          TaskFailed{e.job, absl::StrCat("fragment ", p, " was loaded with hash ", e.hashes[p].Hex(), " but version ",
                                         run_.rounds[p].version().value, " was committed with ", known.Hex())});
    }
    run_.rounds[p].SetHash(e.hashes[p]);
  }
  run_.traffic = e.traffic;
  run_.loaded = true;
  run_.loading = false;
  run_.no_room.clear();
  if (run_.record.state == JobState::kPending) {
    run_.record.parameters_ready = true;
    SetState(JobState::kWaitingForWorkers, "");
  }
  core_.Add(run_.checkpoints.Rewrite());
  AnswerRollback(absl::OkStatus());
}

void Job::On(const TaskFailed& e) {
  if (HasEnded(run_.record.state)) return;
  if (!run_.loaded && !run_.loading) return;  // the job has stopped; this result is older
  AnswerRollback(absl::FailedPreconditionError(e.reason));
  BreakOff(e.reason);
  if (!HasEnded(run_.record.state)) Unload();
}

}  // namespace atl
