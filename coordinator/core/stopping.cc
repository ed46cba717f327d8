// SPDX-License-Identifier: Apache-2.0
// Loading of parameters, and jobs that cannot continue for lack of data, or because a file is missing or
// damaged. A job that holds work stops with all its durable state, gives the reason, and continues on request.
#include "absl/strings/str_cat.h"
#include "common/plan/job_validation.h"
#include "coordinator/core/machine.h"

namespace atl {

void Machine::Load(Run& run) {
  core_.Add(run.checkpoints.DropOvertaken(run.Versions()));
  run.checkpoints.Load(run.spec->checkpoint, run.rounds[0].version());
  if (run.record.state == JobState::kClosing) run.checkpoints.NotDue();  // the end has its own
  run.loading = true;
  run.replicas = {};
  core_.out.tasks.push_back(LoadTaskOf(run));
}

void Machine::Unload(Run& run) {
  run.loaded = false;
  run.loading = false;
  run.checkpoints.NotDue();
  run.no_room.clear();
  // An acceptance stays valid: it is durable, and the round closes after the next Load.
  for (Round& round : run.rounds) round.Reopen();
  core_.out.tasks.push_back(ReleaseJob{run.id()});
}

void Machine::Hold(Run& run, const std::string& reason) {
  run.ending = Ending::kNone;
  // A pending evaluation continues with the job; the end of an ending job requests its last one again.
  if (run.record.state == JobState::kClosing) run.evaluation.Drop();
  run.evaluation.Restart(run.record.next_evaluation);
  if (run.record.state == JobState::kClosing) {
    run.record.draining = false;
    run.record.stop_step = PlannedInnerSteps(*run.spec);
  }
  for (auto& [id, member] : core_.fleet.Of(run.id())) Detach(member, "the job is paused");
  SetState(run, JobState::kPaused, reason);
}

void Machine::BreakOff(Run& run, const std::string& why) {
  if (!run.HoldsWork()) return End(run, JobState::kFailed, why);
  Hold(run, absl::StrCat(kStopped, why, "; what was committed is kept: mend the cause, then 'atoll job resume ",
                         run.id().value, "'"));
}

void Machine::LiftBars(Run& run) {
  for (auto& [id, member] : core_.fleet.members()) {
    member.Unbar(run.id());
  }
  run.failures.clear();
}

void Machine::On(Run& run, const ParametersReady& e) {
  if (!run.loading) return;
  for (size_t p = 0; p < run.rounds.size() && p < e.hashes.size(); ++p) {
    const Digest known = run.rounds[p].hash();
    if (!known.IsZero() && known != e.hashes[p]) {
      return On(run, TaskFailed{e.job, absl::StrCat("fragment ", p, " was loaded with hash ", e.hashes[p].Hex(),
                                                    " but version ", run.rounds[p].version().value,
                                                    " was committed with ", known.Hex())});
    }
    run.rounds[p].SetHash(e.hashes[p]);
  }
  run.traffic = e.traffic;
  run.loaded = true;
  run.loading = false;
  run.no_room.clear();
  if (run.record.state == JobState::kPending) {
    run.record.parameters_ready = true;
    SetState(run, JobState::kWaitingForWorkers, "");
  }
  core_.Add(run.checkpoints.Rewrite());
  if (!run.rollback_request || run.rollback_check) return;
  core_.Answer(*run.rollback_request, absl::OkStatus(), run.id());
  run.rollback_request.reset();
}

void Machine::On(Run& run, const TaskFailed& e) {
  if (HasEnded(run.record.state)) return;
  if (!run.loaded && !run.loading) return;  // the job has stopped; this result is older
  if (run.rollback_request && !run.rollback_check) {
    core_.Answer(*run.rollback_request, absl::FailedPreconditionError(e.reason), run.id());
    run.rollback_request.reset();
  }
  BreakOff(run, e.reason);
  if (!HasEnded(run.record.state)) Unload(run);
}

}  // namespace atl
