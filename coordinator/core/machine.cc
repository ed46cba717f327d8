// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr int kAdvanceLimit = 64;  // passes until nothing more is possible; each but the last has an effect

std::string NameOfCheckpoint(const JobId& job, uint64_t step) {
  return absl::StrCat("jobs/", job.value, "/checkpoints/", step);
}

}  // namespace

Machine::Machine(CoreOptions options, RecoveredState recovered, Instant now)
    : core_{.options = options, .boot = recovered.boot, .counters = recovered.counters, .now = now} {
  core_.heir_of = [this](const JobId& job, uint64_t checkpoint) -> const JobId* {
    for (const auto& [id, other] : jobs_) {
      const JobRecord& record = other.run().record;
      const bool begins = record.spec.init.checkpoint == NameOfCheckpoint(job, checkpoint);
      if (begins && record.state == JobState::kPending) return &id;
    }
    return nullptr;
  };
  core_.begun = [this](const JobSpec& spec) {
    if (Job* const source = SourceOf(spec)) source->Retain();  // its checkpoint may have been kept only for this job
  };
  core_.quarantine = [this](Member& member, const std::string& why) { Quarantine(member, why); };
  for (RecoveredJob& job : recovered.jobs) {
    const JobId id = job.job.job;
    jobs_.try_emplace(id, core_, std::move(job));
  }
  for (const LeaseRecord& lease : recovered.leases) {
    if (Job* const job = Find(lease.job)) job->Restore(lease);
  }
  for (WorkerRecord& worker : recovered.workers) Recover(std::move(worker), now);
  for (auto& [id, job] : jobs_) job.BeginRounds();
}

void Machine::Recover(WorkerRecord worker, Instant now) {
  Member& member = core_.fleet.Add(std::move(worker));
  member.Recover(now);
  const Run* run = StateOf(member.record().job);
  if (run == nullptr) return;
  const bool holds = !run->pool.HeldBy(member.record().worker).empty();
  const bool sent = std::any_of(run->rounds.begin(), run->rounds.end(),
                                [&](const Round& r) { return r.accepted().contains(member.record().worker); });
  member.RecoverStage(holds || sent);
}

Effects Machine::Start(Instant now, const std::map<JobId, std::string>& damaged_logs) {
  core_.now = now;
  for (auto& [id, job] : jobs_) {
    const auto damage = damaged_logs.find(id);
    job.Start(damage == damaged_logs.end() ? nullptr : &damage->second);
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
    Job* const job = JobOf(*core_.fleet.OnConnection(std::get<WorkerSaid>(event).connection));
    if (job != nullptr) job->Advance();
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
  for (const auto& [id, job] : jobs_) touches += job.run().pool.touches();
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
  for (auto& [id, job] : jobs_) job.TakeChanges(core_.out.records);
  return std::exchange(core_.out, Effects{});
}

Job* Machine::Find(const JobId& job) {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second;
}

const Run* Machine::StateOf(const JobId& job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second.run();
}

Job* Machine::SourceOf(const JobSpec& spec) {
  if (spec.init.checkpoint.empty()) return nullptr;
  for (auto& [id, job] : jobs_) {
    for (const auto& [step, checkpoint] : job.run().checkpoints.records()) {
      if (checkpoint.complete && NameOfCheckpoint(id, step) == spec.init.checkpoint) return &job;
    }
  }
  return nullptr;
}

Instant Machine::MembersWake() const {
  Instant wake = kNever;
  for (const auto& [id, member] : core_.fleet.members()) {
    if (!member.rests_from().value.empty()) wake = std::min(wake, member.rests_until());
    if (!member.lost()) {
      wake = std::min(wake, member.heard() + core_.options.membership_timeout);
      const Run* run = member.stage() == Stage::kFetching ? StateOf(member.record().job) : nullptr;
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
  for (const auto& [id, job] : jobs_) {
    const Run& run = job.run();
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
