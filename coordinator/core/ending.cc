// SPDX-License-Identifier: Apache-2.0
// The stop rule, the closing rounds and checkpoints: everything around the end of a job.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/lateness.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

constexpr char kPurged[] = "purged: its checkpoints, parameters and round log are given up";

// Whether the worker waits at an apply step for a round that has neither a quorum nor an upload in progress.
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

// Each training worker has reported `step` or is blocked, and at least one has reported it: none sends anything more.
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

absl::Status CheckPurge(const Run& run, const CoreContext& core) {
  const std::string& id = run.id().value;
  if (!HasEnded(run.record.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", NameOf(run.record.state),
                     "; only what has ended can be purged: end it with 'atoll job cancel ", id, "' first"));
  }
  for (const auto& [step, checkpoint] : run.checkpoints.records()) {
    const JobId* const heir = core.heir_of(run.id(), step);
    if (heir == nullptr) continue;
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from a checkpoint of job ", id,
                                                      "; purge it once that job has its parameters"));
  }
  return absl::OkStatus();
}

absl::Status CheckUnwanted(const Run& run, const CoreContext& core, uint64_t step) {
  const std::string& id = run.id().value;
  ATOLL_RETURN_IF_ERROR(run.FinishedCheckpoint(step).status());
  if (run.rollback_check == step)
    return absl::UnavailableError(absl::StrCat("job ", id, " is being set back to step ", step, "; try again"));
  if (const JobId* const heir = core.heir_of(run.id(), step); heir != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("job ", heir->value, " begins from the checkpoint at step ", step,
                                                      " of job ", id, "; delete it once that job has its parameters"));
  }
  if (run.checkpoints.IsNewest(step)) {
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint at step ", step, " is the newest of job ", id,
                                                      ", which stays: all that it has trained is in it"));
  }
  return absl::OkStatus();
}

}  // namespace

void Job::CheckStop() {
  if (run_.record.state != JobState::kRunning || !run_.loaded) return;
  const StopSpec& stop = run_.spec->stop;
  if (stop.inner_steps > 0 && (run_.StepOf(run_.rounds[0].version()) >= stop.inner_steps ||
                               NobodyGoesOn(run_, core_.fleet, stop.inner_steps))) {
    BeginClosing(stop.inner_steps, absl::StrCat("step ", stop.inner_steps, " is reached"));
    return;
  }
  const uint64_t length = run_.spec->data.sequence_length;
  const bool tokens =
      stop.tokens > 0 && run_.pool.record().consumed >= (stop.tokens - 1) / std::max<uint64_t>(length, 1) + 1;
  if (!tokens && !DataIsTrained(run_, core_.fleet)) return;
  BeginClosing(0, tokens ? absl::StrCat(stop.tokens, " tokens are consumed") : "the dataset is used up");
}

void Job::BeginClosing(uint64_t stop_step, const std::string& why) {
  if (stop_step == 0) {
    // The stop step is after all earlier sends, so that none of them passes for a worker's last
    // contribution. Steps are claims of workers: an honest worker has sent nothing after `most`,
    // and its step without synchronisation is bounded.
    const uint64_t newest = run_.ClockStep(UINT64_MAX), most = newest + run_.inner_steps();
    const uint64_t farthest = newest + (uint64_t{run_.spec->sync.max_unsynced_periods} + 1) * run_.inner_steps();
    const auto pass = [&](const ContributionHeader& h) {
      stop_step = std::max(stop_step, std::min(h.send_step, most));
    };
    stop_step = std::max(ClockOf(run_, core_.fleet), std::min(StepOfHalf(run_, core_.fleet), farthest));
    for (const Round& round : run_.rounds) {
      for (const auto& [worker, arrival] : round.accepted()) pass(arrival.header);
      for (const auto& [id, upload] : round.uploads()) pass(upload.header);
    }
    ++stop_step;
    if (run_.spec->stop.inner_steps > 0) stop_step = std::min(stop_step, run_.spec->stop.inner_steps);
  }
  run_.record.stop_step = stop_step;
  run_.ending = Ending::kRounds;
  run_.used_up.clear();
  for (Round& round : run_.rounds) round.ClearTails();
  SetState(JobState::kClosing, why);
  for (auto& [id, member] : core_.fleet.Of(run_.id())) member.Continue();
  core_.SendToJob(run_.id(), ClosingStarted{run_.id(), stop_step, run_.Versions()});
  OpenRounds();
}

void Job::AdvanceClosing() {
  if (!run_.loaded) return;
  if (run_.ending == Ending::kRounds) {
    if (!ClosingRoundsDone(run_, core_.fleet)) return;
    const auto there = core_.fleet.Of(run_.id());
    const bool anyone = std::any_of(there.begin(), there.end(), [](const auto& entry) {
      return !entry.member.lost() && entry.member.stage() == Stage::kTraining;
    });
    // After a restart the job may have no members although only its end remains to be recorded. A
    // lost member may return with trained work.
    const bool nobody = there.begin() == there.end();
    const bool saved = run_.checkpoints.Of(run_.Versions()) != nullptr;
    if (!anyone && !run_.record.draining && !(nobody && saved && !run_.WantsEvaluation())) return;
    DropUploads(nullptr, LateError("every fragment is synchronised for the last time"));
    run_.ending = anyone ? Ending::kEvaluation : Ending::kCheckpoint;
    run_.evaluation.ForgiveTries();
    core_.Note(run_.id(), "closing rounds done", "every fragment is synchronised for the last time");
  }
  if (run_.ending == Ending::kEvaluation) {
    if (run_.WantsEvaluation()) {
      StartEvaluation();
      AdvanceEvaluation();
      return;
    }
    run_.evaluation.Drop();
    run_.ending = Ending::kCheckpoint;
  }
  if (const CheckpointRecord* const last = run_.checkpoints.Of(run_.Versions())) {
    if (!last->complete) return;
    const std::string starved = StarvedLine(run_, core_.fleet);
    const JobState state = run_.record.draining ? JobState::kCancelled
                           : starved.empty()    ? JobState::kSucceeded
                                                : JobState::kFailed;
    std::string reason = run_.record.draining ? "drained; what its workers had trained is merged" : "";
    if (!starved.empty()) {
      reason = absl::StrCat(reason, reason.empty() ? "" : "; ", starved,
                            "; all that was committed is in its last checkpoint");
    }
    return End(state, reason);
  }
  WriteCheckpointNow(std::max(ClockOf(run_, core_.fleet), run_.checkpoints.NextStep()));
}

void Job::End(JobState state, const std::string& reason) {
  run_.record.end_wall_nanos = core_.wall_nanos;
  run_.ending = Ending::kNone;
  run_.no_room.clear();
  run_.evaluation.Drop();
  for (auto& [id, member] : core_.fleet.Of(run_.id())) Detach(member, absl::StrCat("the job is ", NameOf(state)));
  RefuseUploads([](Round& round) { return round.End(); },
                absl::FailedPreconditionError(absl::StrCat("job ", run_.id().value, " has ended: ", NameOf(state))));
  run_.log_damage.clear();  // its rounds are no longer merged
  SettleRevoked();
  run_.rollback_check.reset();
  AnswerRollback(absl::AbortedError(absl::StrCat("the job has ended meanwhile: ", reason)));
  run_.loaded = false;
  run_.loading = false;
  SetState(state, reason);
  core_.out.tasks.push_back(ReleaseJob{run_.id(), true});
}

void Job::WriteCheckpointNow(uint64_t step) {
  CheckpointRecord record;
  record.job = run_.id();
  record.step = step;
  record.versions = run_.Versions();
  record.pool_consumed = run_.pool.record().consumed;
  record.pool_frontier = run_.pool.record().frontier;
  core_.Add(run_.checkpoints.Begin(std::move(record), run_.spec->checkpoint));
}

void Job::On(const CheckpointWritten& e) {
  if (!run_.checkpoints.IsBegun(e.step)) return;
  core_.Add(run_.checkpoints.Written(e.step, e.hashes, e.wall_nanos, run_.Versions(), run_.IsMerging()));
  run_.no_room.clear();
  core_.Note(run_.id(), "checkpoint", absl::StrCat("checkpoint at step ", e.step, " is on disk"),
             {{"step", absl::StrCat(e.step)}});
  Retain();
}

void Job::Retain() {
  // Keeps a checkpoint that is being checked, or that a pending job needs: once that has begun, Retain runs again.
  core_.Add(run_.checkpoints.Retain(run_.spec->checkpoint, [&](uint64_t step) {
    return run_.rollback_check == step || core_.heir_of(run_.id(), step) != nullptr;
  }));
}

absl::Status Job::Do(const CheckpointUnwanted& e) {
  const absl::Status may = CheckUnwanted(run_, core_, e.step);
  if (may.ok()) {
    core_.Add(run_.checkpoints.Drop(e.step));
    core_.Note(e.job, "checkpoint deleted", absl::StrCat("checkpoint at step ", e.step, " is given up by request"),
               {{"step", absl::StrCat(e.step)}});
  }
  return may;
}

// Posts the deletion of the files each time, because the request may be a retry after a failed deletion.
absl::Status Job::Do(const JobUnwanted& e) {
  if (const absl::Status may = CheckPurge(run_, core_); !may.ok()) return may;
  core_.Add(run_.checkpoints.DropAll());
  if (run_.record.parameters_ready) {
    const std::string before = std::move(run_.record.reason);
    run_.record.parameters_ready = false;
    run_.record.reason = absl::StrCat(kPurged, before.empty() ? "" : "; it had ended so: ", before);
    run_.touched = true;
    core_.Note(e.job, "job purged", absl::StrCat("job ", e.job.value, " is ", kPurged));
  }
  core_.out.tasks.push_back(ReleaseJob{.job = e.job, .ended = true, .purged = true});
  return absl::OkStatus();
}

}  // namespace atl
