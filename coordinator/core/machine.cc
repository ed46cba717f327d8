// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr int kAdvanceLimit = 64;  // passes until nothing more is possible; each but the last has an effect

}  // namespace

Machine::Machine(CoreOptions options, RecoveredState recovered, Instant now)
    : core_{.options = options, .boot = recovered.boot, .counters = recovered.counters, .now = now} {
  for (RecoveredJob& job : recovered.jobs) Recover(std::move(job), now);
  for (const LeaseRecord& lease : recovered.leases) {
    if (Run* run = Find(lease.job)) run->pool.Restore(lease);
  }
  for (WorkerRecord& worker : recovered.workers) Recover(std::move(worker), now);
  const auto known = [this](const WorkerId& worker) { return core_.fleet.Find(worker) != nullptr; };
  for (auto& [id, run] : runs_) {
    for (Round& round : run.rounds) round.ForgetOlder(known);
    RecoverShards(run);
    for (uint32_t p = 0; p < run.rounds.size() && !HasEnded(run.record.state); ++p) OpenRound(run, FragmentIndex{p});
  }
}

void Machine::Recover(RecoveredJob job, Instant now) {
  Run run(std::move(job.job), std::move(job.pool));
  ATOLL_CHECK(job.heads.size() == run.rounds.size(), "a job has one head for each fragment");
  for (size_t p = 0; p < job.heads.size(); ++p) {
    run.rounds[p] = Round(job.heads[p].version, job.heads[p].hash);
  }
  for (ContributionHeader& header : job.accepted) {
    Round& round = run.rounds.at(header.target.fragment.value);
    if (round.version() != header.target.version || HasEnded(run.record.state)) continue;
    round.RestoreAccepted(std::move(header), now);
  }
  for (const ScreenedRecord& refused : job.screened) {
    Round& round = run.rounds.at(refused.target.fragment.value);
    if (refused.epoch != run.record.epoch || refused.target.version != round.version()) continue;
    round.RestoreRefused(refused.worker, refused.digest);
  }
  for (ContributionHeader& header : job.committed) {
    if (header.target.fragment.value == 0 && header.target.version.value + 1 == run.rounds[0].version().value) {
      run.participants.insert(header.worker);
    }
    if (HasEnded(run.record.state)) continue;
    run.rounds.at(header.target.fragment.value).RestoreCommitted(std::move(header));
  }
  const uint64_t periods = uint64_t{run.spec->sync.max_unsynced_periods} + run.spec->sync.max_missed + 2;
  if (!HasEnded(run.record.state)) run.claims.Recover(job.claims, run.PeriodSamples(periods));
  run.progress.Recover(run.Versions(), run.PeriodsSinceRounds());
  run.clock_floor = job.clock_step;
  run.rounds_committed = job.rounds_committed;
  run.tokens_committed = job.tokens_committed;
  run.evaluation.Restore(std::move(job.evaluations));
  run.checkpoints.Restore(std::move(job.checkpoints));
  // The wall clock may have been set back: later times must not be earlier than recorded ones.
  core_.wall_nanos = std::max(
      {core_.wall_nanos, run.record.create_wall_nanos, run.record.start_wall_nanos, run.record.end_wall_nanos});
  if (run.record.state == JobState::kClosing) {
    run.ending = Ending::kRounds;
  } else if (!HasEnded(run.record.state) && !run.rounds.empty()) {
    if (EvaluationIsOwed(run.spec->evaluation, run.evaluation.done(), run.rounds[0].version())) StartEvaluation(run);
  }
  const JobId id = run.id();
  runs_.emplace(id, std::move(run));
}

void Machine::Recover(WorkerRecord worker, Instant now) {
  Member& member = core_.fleet.Add(std::move(worker));
  member.Recover(now);
  const Run* run = RunOf(member);
  if (run == nullptr) return;
  const bool holds = !run->pool.HeldBy(member.record().worker).empty();
  const bool sent = std::any_of(run->rounds.begin(), run->rounds.end(),
                                [&](const Round& r) { return r.accepted().contains(member.record().worker); });
  member.RecoverStage(holds || sent);
}

Effects Machine::Start(Instant now, const std::map<JobId, std::string>& damaged_logs) {
  core_.now = now;
  for (auto& [id, run] : runs_) {
    if (HasEnded(run.record.state)) continue;
    const auto damage = damaged_logs.find(id);
    if (damage == damaged_logs.end()) {
      Load(run);
    } else {
      run.log_damage = damage->second;
      Hold(run, absl::StrCat(kStopped, run.log_damage, "; what was committed is kept: mend it, start the coordinator ",
                             "again, then 'atoll job resume ", id.value, "'"));
    }
    SettleRevoked(run);
  }
  members_wake_ = MembersWake();
  return TakeEffects();
}

Effects Machine::Step(const Event& event, Instant now, int64_t wall_nanos) {
  ATOLL_CHECK(now >= core_.now, "time does not go back");
  core_.now = now;
  core_.wall_nanos = std::max(core_.wall_nanos, wall_nanos);
  const bool calm = IsCalm(event);
  const uint64_t touches_before = Touches();
  if (const auto* stalled = std::get_if<CoordinatorStalled>(&event)) Excuse(stalled->time);
  if (!calm) ExpireMembers();
  std::visit([this](const auto& e) { Route(e); }, event);
  if (calm) {
    Run* run = RunOf(*core_.fleet.OnConnection(std::get<WorkerSaid>(event).connection));
    if (run != nullptr && !HasEnded(run->record.state)) AdvanceRun(*run);
    if (core_.out.count() == 0 && Touches() == touches_before) return TakeEffects();
  }
  ForgetMembers();
  for (int pass = 0;; ++pass) {
    ATOLL_CHECK(pass < kAdvanceLimit, "the core does not come to rest");
    const uint64_t before = core_.out.count() + Touches();
    Advance();
    if (core_.out.count() + Touches() == before) break;
  }
  members_wake_ = MembersWake();
  return TakeEffects();
}

uint64_t Machine::Touches() const {
  uint64_t touches = core_.fleet.touches();
  for (const auto& [id, run] : runs_) touches += run.pool.touches();
  return touches;
}

bool Machine::IsCalm(const Event& event) {
  const auto* said = std::get_if<WorkerSaid>(&event);
  if (said == nullptr || !std::holds_alternative<Heartbeat>(said->message) || core_.now >= members_wake_) return false;
  const Member* member = core_.fleet.OnConnection(said->connection);
  return member != nullptr && member->stage() != Stage::kFetching;
}

Effects Machine::TakeEffects() {
  if (core_.counters_touched) core_.out.records.push_back(core_.counters);
  core_.counters_touched = false;
  core_.fleet.TakeChanges(core_.out.records);
  for (auto& [id, run] : runs_) {
    if (run.touched) core_.out.records.push_back(run.record);
    run.touched = false;
    run.pool.TakeChanges(core_.out.records);
  }
  return std::exchange(core_.out, Effects{});
}

Run* Machine::Find(const JobId& job) {
  const auto it = runs_.find(job);
  return it == runs_.end() ? nullptr : &it->second;
}

const Run* Machine::Find(const JobId& job) const {
  const auto it = runs_.find(job);
  return it == runs_.end() ? nullptr : &it->second;
}

void Machine::SetState(Run& run, JobState state, const std::string& reason) {
  const bool begun = run.record.state == JobState::kPending && state != JobState::kPending;
  run.record.state = state;
  run.record.reason = reason;
  run.touched = true;
  core_.out.notes.push_back(StateNote(run.id(), state, reason));
  Run* const source = begun ? SourceOf(runs_, run.record.spec) : nullptr;
  if (source != nullptr) Retain(*source);  // its checkpoint may have been kept only for this one
}

Instant Machine::MembersWake() const {
  Instant wake = kNever;
  for (const auto& [id, member] : core_.fleet.members()) {
    if (!member.rests_from().value.empty()) wake = std::min(wake, member.rests_until());
    if (!member.lost()) {
      wake = std::min(wake, member.heard() + core_.options.membership_timeout);
      const Run* run = member.stage() == Stage::kFetching ? Find(member.record().job) : nullptr;
      if (run != nullptr && run->loaded) wake = std::min(wake, FetchDeadlineOf(*run, member));
    } else if (member.Assigned()) {
      wake = std::min(wake, member.lost_at() + AbsenceOf(member));
    } else if (member.Gone() && member.lost_at() + limits::kGoneWorkerMemory > core_.now) {
      wake = std::min(wake, member.lost_at() + limits::kGoneWorkerMemory);  // after that, any later event removes it
    }
  }
  return wake;
}

Instant Machine::NextWake() const {
  Instant wake = members_wake_;
  for (const auto& [id, run] : runs_) {
    wake = std::min(wake, run.evaluation.Wake(core_.now));
    if (!run.no_room.empty()) wake = std::min(wake, run.retry_at);
    // While parameters are not loaded, or a checkpoint waits for a merge, rounds do nothing at
    // their deadlines; an event ends that state.
    if (!run.Gathers() || !run.loaded || run.SavesAfterMerge()) continue;
    for (uint32_t p = 0; p < run.rounds.size(); ++p) {
      wake = std::min(wake, run.rounds[p].Decide(RuleOf(run, core_.fleet, FragmentIndex{p}), core_.now).wake);
    }
  }
  return wake;
}

}  // namespace atl
