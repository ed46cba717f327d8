// SPDX-License-Identifier: Apache-2.0
// The stop rule, the closing rounds and checkpoints: everything around the end of a job.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/lateness.h"
#include "coordinator/core/machine.h"
#include "coordinator/core/used_up.h"

namespace atl {
namespace {

constexpr char kPurged[] = "purged: its checkpoints, parameters and round log are given up";

// It waits at an apply step of a round without a quorum and without an upload.
bool WaitsInVain(const Run& run, const Fleet& fleet, const Member& member) {
  if (member.heartbeat().activity != WorkerActivity::kWaiting) return false;
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    const Round& round = run.rounds[p];
    const auto mine = round.accepted().find(member.record().worker);
    const auto drop = round.dropped().find(member.record().worker);
    if (round.closing() || (mine == round.accepted().end() && drop == round.dropped().end())) continue;
    const uint64_t sent = mine != round.accepted().end() ? mine->second.header.send_step : drop->second.send_step;
    if (member.step() < sent + run.spec->sync.overlap_steps) continue;
    if (round.uploads().empty() && round.Arrived() < round.Quorum(RuleOf(run, fleet, FragmentIndex{p}))) return true;
  }
  return false;
}

// A training worker has reported `step`, every other one too or is blocked: none sends anything more.
bool NobodyGoesOn(const Run& run, const Fleet& fleet, uint64_t step) {
  bool any = false;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost() || member.stage() != Stage::kTraining) continue;
    if (member.step() < step && !WaitsInVain(run, fleet, member)) return false;
    any = any || member.step() >= step;
  }
  return any;
}

bool ClosingRoundsDone(Run& run, const Fleet& fleet) {
  bool done = true;
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    Round& round = run.rounds[p];
    if (!round.closing()) {
      std::set<WorkerId> expected;
      bool past_finished = false;
      for (const auto& [id, member] : fleet.Of(run.id())) {
        const bool there = member.Trains(run.id()) && !member.lost() && member.stage() == Stage::kTraining;
        if (!there) continue;
        const bool closed = member.finished() || run.HasClosed(FragmentIndex{p}, id, member.step());
        if (!closed) expected.insert(id);
        past_finished = past_finished || (closed && !round.accepted().contains(id));
      }
      round.ExpectOnly(std::move(expected), past_finished);
    }
    const bool sending = std::any_of(round.uploads().begin(), round.uploads().end(), [&](const auto& u) {
      const Member* sender = fleet.Find(u.second.header.worker);
      return u.second.flushing || sender == nullptr || !sender->left_out();
    });
    done = done && !round.closing() && round.accepted().empty() && round.expected().empty() && !sending;
  }
  return done;
}

}  // namespace

void Machine::CheckStop(Run& run) {
  if (run.record.state != JobState::kRunning || !run.loaded) return;
  const StopSpec& stop = run.spec->stop;
  if (stop.inner_steps > 0 &&
      (run.StepOf(run.rounds[0].version()) >= stop.inner_steps || NobodyGoesOn(run, core_.fleet, stop.inner_steps))) {
    BeginClosing(run, stop.inner_steps, absl::StrCat("step ", stop.inner_steps, " is reached"));
    return;
  }
  const uint64_t length = run.spec->data.sequence_length;
  const bool tokens =
      stop.tokens > 0 && run.pool.record().consumed >= (stop.tokens - 1) / std::max<uint64_t>(length, 1) + 1;
  if (!tokens && !DataIsTrained(run, core_.fleet)) return;
  BeginClosing(run, 0, tokens ? absl::StrCat(stop.tokens, " tokens are consumed") : "the dataset is used up");
}

void Machine::BeginClosing(Run& run, uint64_t stop_step, const std::string& why) {
  if (stop_step == 0) {
    // The stop step is after all earlier sends, so that none of them passes for a worker's last
    // contribution. Steps are claims of workers: an honest worker has sent nothing after `most`,
    // and its step without synchronisation is bounded.
    const uint64_t newest = run.ClockStep(UINT64_MAX), most = newest + run.inner_steps();
    const uint64_t farthest = newest + (uint64_t{run.spec->sync.max_unsynced_periods} + 1) * run.inner_steps();
    const auto pass = [&](const ContributionHeader& h) {
      stop_step = std::max(stop_step, std::min(h.send_step, most));
    };
    stop_step = std::max(ClockOf(run, core_.fleet), std::min(StepOfHalf(run, core_.fleet), farthest));
    for (const Round& round : run.rounds) {
      for (const auto& [worker, arrival] : round.accepted()) pass(arrival.header);
      for (const auto& [id, upload] : round.uploads()) pass(upload.header);
    }
    ++stop_step;
    if (run.spec->stop.inner_steps > 0) stop_step = std::min(stop_step, run.spec->stop.inner_steps);
  }
  run.record.stop_step = stop_step;
  run.ending = Ending::kRounds;
  run.used_up.clear();
  for (Round& round : run.rounds) round.ClearTails();
  SetState(run, JobState::kClosing, why);
  for (auto& [id, member] : core_.fleet.Of(run.id())) member.Continue();
  core_.SendToJob(run.id(), ClosingStarted{run.id(), stop_step, run.Versions()});
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    if (!run.rounds[p].closing()) OpenRound(run, FragmentIndex{p});
  }
}

void Machine::AdvanceClosing(Run& run) {
  if (!run.loaded) return;
  if (run.ending == Ending::kRounds) {
    if (!ClosingRoundsDone(run, core_.fleet)) return;
    const auto there = core_.fleet.Of(run.id());
    const bool anyone = std::any_of(there.begin(), there.end(), [](const auto& entry) {
      return !entry.member.lost() && entry.member.stage() == Stage::kTraining;
    });
    // After a restart the job may have no members although only its end remains to be recorded. A
    // lost member may return with trained work.
    const bool nobody = there.begin() == there.end();
    const bool saved = run.checkpoints.Of(run.Versions()) != nullptr;
    if (!anyone && !run.record.draining && !(nobody && saved && !run.WantsEvaluation())) return;
    DropUploads(run, nullptr, LateError("every fragment is synchronised for the last time"));
    run.ending = anyone ? Ending::kEvaluation : Ending::kCheckpoint;
    run.evaluation.ForgiveTries();
    core_.Note(run.id(), "closing rounds done", "every fragment is synchronised for the last time");
  }
  if (run.ending == Ending::kEvaluation) {
    if (run.WantsEvaluation()) {
      StartEvaluation(run);
      AdvanceEvaluation(run);
      return;
    }
    run.evaluation.Drop();
    run.ending = Ending::kCheckpoint;
  }
  if (const CheckpointRecord* const last = run.checkpoints.Of(run.Versions())) {
    if (!last->complete) return;
    const std::string starved = StarvedLine(run, core_.fleet);
    const JobState state = run.record.draining ? JobState::kCancelled
                           : starved.empty()   ? JobState::kSucceeded
                                               : JobState::kFailed;
    std::string reason = run.record.draining ? "drained; what its workers had trained is merged" : "";
    if (!starved.empty()) {
      reason = absl::StrCat(reason, reason.empty() ? "" : "; ", starved,
                            "; all that was committed is in its last checkpoint");
    }
    return End(run, state, reason);
  }
  WriteCheckpointNow(run, std::max(ClockOf(run, core_.fleet), run.checkpoints.NextStep()));
}

void Machine::End(Run& run, JobState state, const std::string& reason) {
  run.record.end_wall_nanos = core_.wall_nanos;
  run.ending = Ending::kNone;
  run.no_room.clear();
  run.evaluation.Drop();
  for (auto& [id, member] : core_.fleet.Of(run.id())) Detach(member, absl::StrCat("the job is ", NameOf(state)));
  RefuseUploads(
      run, [](Round& round) { return round.End(); },
      absl::FailedPreconditionError(absl::StrCat("job ", run.id().value, " has ended: ", NameOf(state))));
  run.log_damage.clear();  // its rounds are no longer merged
  SettleRevoked(run);
  if (run.rollback_request) {
    core_.Answer(*run.rollback_request, absl::AbortedError(absl::StrCat("the job has ended meanwhile: ", reason)),
                 run.id());
  }
  run.rollback_request.reset();
  run.rollback_check.reset();
  run.loaded = false;
  run.loading = false;
  SetState(run, state, reason);
  core_.out.tasks.push_back(ReleaseJob{run.id(), true});
}

void Machine::WriteCheckpointNow(Run& run, uint64_t step) {
  CheckpointRecord record;
  record.job = run.id();
  record.step = step;
  record.versions = run.Versions();
  record.pool_consumed = run.pool.record().consumed;
  record.pool_frontier = run.pool.record().frontier;
  core_.Add(run.checkpoints.Begin(std::move(record), run.spec->checkpoint));
}

void Machine::On(Run& run, const CheckpointWritten& e) {
  if (!run.checkpoints.IsBegun(e.step)) return;
  core_.Add(run.checkpoints.Written(e.step, e.hashes, e.wall_nanos, run.Versions(), run.IsMerging()));
  run.no_room.clear();
  core_.Note(run.id(), "checkpoint", absl::StrCat("checkpoint at step ", e.step, " is on disk"),
             {{"step", absl::StrCat(e.step)}});
  Retain(run);
}

void Machine::Retain(Run& run) {
  // A checkpoint from which another job starts stays until that job has begun; the next checkpoint checks again.
  core_.Add(run.checkpoints.Retain(run.spec->checkpoint, [&](uint64_t step) {
    return run.rollback_check == step || HeirOf(runs_, run.id(), step) != nullptr;
  }));
}

absl::Status Machine::Do(Run& run, const CheckpointUnwanted& e) {
  const absl::Status may = CheckUnwanted(run, e.step);
  if (may.ok()) {
    core_.Add(run.checkpoints.Drop(e.step));
    core_.Note(e.job, "checkpoint deleted", absl::StrCat("checkpoint at step ", e.step, " is given up by request"),
               {{"step", absl::StrCat(e.step)}});
  }
  return may;
}

// Posts the deletion of the files each time, because the request may be a retry after a failed deletion.
absl::Status Machine::Do(Run& run, const JobUnwanted& e) {
  if (const absl::Status may = CheckPurge(run); !may.ok()) return may;
  core_.Add(run.checkpoints.DropAll());
  if (run.record.parameters_ready) {
    const std::string before = std::move(run.record.reason);
    run.record.parameters_ready = false;
    run.record.reason = absl::StrCat(kPurged, before.empty() ? "" : "; it had ended so: ", before);
    run.touched = true;
    core_.Note(e.job, "job purged", absl::StrCat("job ", e.job.value, " is ", kPurged));
  }
  core_.out.tasks.push_back(ReleaseJob{.job = e.job, .ended = true, .purged = true});
  return absl::OkStatus();
}

absl::Status Machine::CheckPurge(const Run& run) const {
  const std::string& id = run.id().value;
  if (!HasEnded(run.record.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", NameOf(run.record.state),
                     "; only what has ended can be purged: end it with 'atoll job cancel ", id, "' first"));
  }
  for (const auto& [step, checkpoint] : run.checkpoints.records()) {
    const JobId* const heir = HeirOf(runs_, run.id(), step);
    if (heir == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from a checkpoint of job ", id,
                                                      "; purge it once that job has its parameters"));
  }
  return absl::OkStatus();
}

absl::Status Machine::CheckUnwanted(const Run& run, uint64_t step) const {
  const std::string& id = run.id().value;
  ATOLL_RETURN_IF_ERROR(run.FinishedCheckpoint(step).status());
  if (run.rollback_check == step) {
    return absl::UnavailableError(absl::StrCat("job ", id, " is being set back to step ", step, "; try again"));
  }
  if (const JobId* const heir = HeirOf(runs_, run.id(), step); heir != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from the checkpoint at step ", step,
                                                      " of job ", id, "; delete it once that job has its parameters"));
  }
  if (run.checkpoints.IsNewest(step)) {
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint at step ", step, " is the newest of job ", id,
                                                      ", which stays: all that it has trained is in it"));
  }
  return absl::OkStatus();
}

}  // namespace atl
