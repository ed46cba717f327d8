// SPDX-License-Identifier: Apache-2.0
// Beginning, recovery and state of a job; its part when a worker returns, is lost, leaves or is forgotten.
#include "coordinator/core/job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/explain.h"

namespace atl {

Job::Job(CoreContext& core, RecoveredJob job) : Job(core, std::move(job.job), std::move(job.pool)) {
  ATOLL_CHECK(job.heads.size() == run_.rounds.size(), "a job has one head for each fragment");
  for (size_t p = 0; p < job.heads.size(); ++p) {
    run_.rounds[p] = Round(job.heads[p].version, job.heads[p].hash);
  }
  for (ContributionHeader& header : job.accepted) {
    Round& round = run_.rounds.at(header.target.fragment.value);
    if (round.version() != header.target.version || HasEnded(run_.record.state)) continue;
    round.RestoreAccepted(std::move(header), core_.now);
  }
  for (const ScreenedRecord& refused : job.screened) {
    Round& round = run_.rounds.at(refused.target.fragment.value);
    if (refused.epoch != run_.record.epoch || refused.target.version != round.version()) continue;
    round.RestoreRefused(refused.worker, refused.digest);
  }
  for (ContributionHeader& header : job.committed) {
    if (header.target.fragment.value == 0 && header.target.version.value + 1 == run_.rounds[0].version().value) {
      run_.participants.insert(header.worker);
    }
    if (HasEnded(run_.record.state)) continue;
    run_.rounds.at(header.target.fragment.value).RestoreCommitted(std::move(header));
  }
  const uint64_t periods = uint64_t{run_.spec->sync.max_unsynced_periods} + run_.spec->sync.max_missed + 2;
  if (!HasEnded(run_.record.state)) run_.claims.Recover(job.claims, run_.PeriodSamples(periods));
  run_.progress.Recover(run_.Versions(), run_.PeriodsSinceRounds());
  run_.clock_floor = job.clock_step;
  run_.rounds_committed = job.rounds_committed;
  run_.tokens_committed = job.tokens_committed;
  run_.evaluation.Restore(std::move(job.evaluations));
  run_.checkpoints.Restore(std::move(job.checkpoints));
  // The wall clock may have been set back: later times must not be earlier than recorded ones.
  core_.wall_nanos = std::max(
      {core_.wall_nanos, run_.record.create_wall_nanos, run_.record.start_wall_nanos, run_.record.end_wall_nanos});
  if (run_.record.state == JobState::kClosing) {
    run_.ending = Ending::kRounds;
  } else if (!HasEnded(run_.record.state) && !run_.rounds.empty()) {
    if (EvaluationIsOwed(run_.spec->evaluation, run_.evaluation.done(), run_.rounds[0].version())) StartEvaluation();
  }
}

void Job::BeginRounds() {
  const auto known = [this](const WorkerId& worker) { return core_.fleet.Find(worker) != nullptr; };
  for (Round& round : run_.rounds) round.ForgetOlder(known);
  RecoverShards();
  if (!HasEnded(run_.record.state)) OpenRounds();
}

void Job::Start(const std::string* damage) {
  if (HasEnded(run_.record.state)) return;
  if (damage == nullptr) {
    Load();
  } else {
    run_.log_damage = *damage;
    Hold(absl::StrCat(kStopped, run_.log_damage, "; what was committed is kept: mend it, start the coordinator ",
                      "again, then 'atoll job resume ", run_.id().value, "'"));
  }
  SettleRevoked();
}

void Job::Submit() {
  SetState(JobState::kPending, "parameters are being made");
  OpenRounds();
  Load();
  if (core_.disk_low) On(DiskSpace{true});
}

void Job::TakeChanges(std::vector<LedgerRecord>& out) {
  if (run_.touched) out.push_back(run_.record);
  run_.touched = false;
  run_.pool.TakeChanges(out);
}

void Job::SetState(JobState state, const std::string& reason) {
  const bool begun = run_.record.state == JobState::kPending && state != JobState::kPending;
  run_.record.state = state;
  run_.record.reason = reason;
  run_.touched = true;
  core_.out.notes.push_back(StateNote(run_.id(), state, reason));
  if (begun) core_.begun(run_.record.spec);
}

void Job::WelcomeBack(Member& member, const std::vector<LeaseCursor>& leases) {
  const WorkerId& worker = member.record().worker;
  DropUploads(&worker, absl::AbortedError("a newer stream of this worker has begun; offer it again"));
  // The worker does not have the leases that it does not name: a grant or a return was lost with
  // the old stream.
  for (const LeaseId lease : run_.pool.HeldBy(worker)) {
    const bool named =
        std::any_of(leases.begin(), leases.end(), [&](const LeaseCursor& c) { return c.lease == lease; });
    if (!named) run_.pool.Return(lease, run_.AcceptedCursor(lease));
  }
  SendAssignment(member);
  member.Resume();
  if (run_.evaluation.IsWith(worker)) SendEvaluation(member);
}

void Job::Rejoin(const WorkerId& worker) {
  if (!run_.evaluation.IsWith(worker)) return;
  // The evaluation itself may have crashed the worker's process, so the worker loses it.
  run_.evaluation.Fail("it joins anew, as after the end of its process");
  EvaluationTakenFrom(run_.evaluation.Take(run_.Versions(), core_.now), false);
}

void Job::Lose(const WorkerId& worker) {
  for (Round& round : run_.rounds) round.StopExpecting(worker);
}

void Job::Drop(Member& member, const std::string& why) {
  const WorkerId& id = member.record().worker;
  const std::vector<LeaseId> leases = run_.pool.HeldBy(id);
  DropUploads(&id, absl::AbortedError(absl::StrCat("worker ", id.value, " left the job: ", why)));
  for (const LeaseId lease : leases) run_.pool.Return(lease, run_.AcceptedCursor(lease));
  for (Round& round : run_.rounds) round.Leave(id);
  run_.misses.Forget(id);
  if (run_.evaluation.IsWith(id)) {
    if (member.lost())
      EvaluationTakenFrom(run_.evaluation.Take(run_.Versions(), core_.now), false);
    else
      run_.evaluation.Release();
  }
  if (!leases.empty()) {
    core_.Note(run_.id(), "leases returned",
               absl::StrCat(leases.size(), " leases of worker ", id.value, " go back to the pool: ", why),
               {{"worker", id.value}});
  }
  core_.Free(member);
}

void Job::Detach(Member& member, const std::string& why) {
  Drop(member, why);
  if (member.connection()) return core_.SendTo(member, Unassign{run_.id(), why});
  member.Fence(core_.NewIncarnation());
}

void Job::Forget(const WorkerId& worker) {
  run_.failures.erase(worker);
  run_.strikes.Forget(worker);
  run_.shards.Forget(worker);
  run_.claims.Forget(worker);
  run_.misses.Forget(worker);
}

void Job::Excuse(Duration time) {
  for (Round& round : run_.rounds) round.Excuse(time, core_.now);
  run_.evaluation.Excuse(time, core_.now);
}

}  // namespace atl
