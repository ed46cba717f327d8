// SPDX-License-Identifier: Apache-2.0
// Hello, silence, fencing.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/names.h"
#include "common/plan/boot_lines.h"
#include "common/plan/limits.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

// The time after which a lost member is fenced, if it was not heard since the coordinator's start (period unknown).
constexpr Duration kAbsenceOverAStart = Seconds(600);

// Whether a Hello resumes the member's incarnation. `run`: of the member's job; null: it has none.
bool MayResume(const Run* run, BootNumber boot, const Member& member, const Hello& hello) {
  const WorkerRecord& record = member.record();
  // The worker's state is from a history that this coordinator does not have.
  if (LineOf(hello.last_boot) != LineOf(boot)) return false;
  if (hello.incarnation.value == 0 || hello.incarnation != record.incarnation) return false;
  if (hello.start_nonce != record.start_nonce || hello.evaluate_only != record.evaluate_only) return false;
  if (!hello.job.value.empty() && hello.job != record.job) return false;
  if (hello.job.value.empty() && run != nullptr && !run->pool.HeldBy(record.worker).empty()) return false;
  return std::all_of(hello.leases.begin(), hello.leases.end(),
                     [&](const LeaseCursor& c) { return c.lease >= record.leases_from; });
}

std::vector<Welcome::Fate> FatesOf(const Run* run, BootNumber boot, const Hello& hello) {
  std::vector<Welcome::Fate> fates;
  for (const HeldContribution& held : hello.held) {
    ContributionFate fate = ContributionFate::kRefused;
    const uint32_t p = held.target.fragment.value;
    if (run != nullptr && LineOf(hello.last_boot) == LineOf(boot) && p < run->rounds.size() &&
        !HasEnded(run->record.state)) {
      const Round& round = run->rounds[p];
      const auto accepted = round.accepted().find(hello.worker);
      const auto committed = round.committed().find(hello.worker);
      if (held.target.version == round.version()) {
        const bool here = accepted != round.accepted().end() && accepted->second.header.digest == held.digest;
        const bool refused = round.HasRefused(hello.worker, held.digest);
        const bool taken = accepted != round.accepted().end() || round.closing() || refused;
        fate = here ? ContributionFate::kAccepted : taken ? ContributionFate::kRefused : ContributionFate::kUnknown;
      } else if (committed != round.committed().end() && committed->second.header.target == held.target &&
                 committed->second.header.digest == held.digest) {
        fate = ContributionFate::kCommitted;
      }
    }
    fates.push_back({held.target, fate});
  }
  return fates;
}

}  // namespace

std::optional<Refused> Machine::RefusalOf(const Hello& hello) const {
  if (hello.protocol_revision != kProtocolRevision) {
    return Refused{absl::StrCat("this coordinator speaks protocol revision ", kProtocolRevision, ", the worker ",
                                hello.protocol_revision, ": install the same release on both"),
                   false};
  }
  if (hello.arithmetic_revision != kArithmeticRevision) {
    return Refused{absl::StrCat("this coordinator computes with arithmetic revision ", kArithmeticRevision,
                                ", the worker with ", hello.arithmetic_revision, ": install the same release on both"),
                   false};
  }
  if (!IsName(hello.worker.value)) return Refused{absl::StrCat("a worker's name must be ", kNameRule), false};
  if (hello.last_boot > core_.boot)
    return Refused{OlderStateLine(core_.boot, hello.last_boot) + kFollowOtherwise, true};
  const Member* member = core_.fleet.Find(hello.worker);
  if (member == nullptr) {
    if (core_.fleet.Alive() < core_.options.workers) return std::nullopt;
    return Refused{
        absl::StrCat("this coordinator has ", core_.options.workers, " workers, its limit; remove one first"), true};
  }
  if (!member->record().quarantine.empty()) return Refused{QuarantineLine(member->record()), true};
  // Only the nonce identifies a process, because incarnations are not secret. A restarted process is admitted
  // once the connection of its predecessor is closed, or was silent for the membership timeout.
  if (member->connection() && hello.start_nonce != member->record().start_nonce) {
    return Refused{
        absl::StrCat("a worker named ", hello.worker.value, " is connected from another process; give this one ",
                     "another name, or stop the other and wait ", SecondsOf(core_.options.membership_timeout)),
        true};
  }
  return std::nullopt;
}

void Machine::On(const WorkerConnected& e) {
  if (auto refused = RefusalOf(e.hello)) {
    // A refusal without retry has another reason than a newer state.
    if (refused->retry && e.hello.last_boot > core_.boot)
      core_.fleet.TurnedAway({e.hello.worker, e.hello.last_boot, core_.now});
    core_.Note({}, "worker refused", absl::StrCat("worker ", e.hello.worker.value, " refused: ", refused->reason));
    core_.out.sends.push_back({e.connection, *refused});
    core_.out.closes.push_back({e.connection});
    return;
  }
  Member* member = core_.fleet.Find(e.hello.worker);
  const bool known = member != nullptr;
  // Leases of a forgotten worker with this name do not belong to the new one.
  if (!known) member = &core_.fleet.Add({.worker = e.hello.worker, .leases_from = LeaseId{core_.counters.next_lease}});
  core_.Disconnect(*member);
  const bool resumed = known && MayResume(StateOf(member->record().job), core_.boot, *member, e.hello);
  // Keeps the drain for the same process: the request may have been lost with the old stream.
  member->BeginStream(e.hello.start_nonce);
  if (!resumed) Join(*member, e.hello);
  core_.fleet.Connect(*member, e.connection);
  member->Return(core_.now);
  for (auto& [id, job] : jobs_) job.Forgive(e.hello.worker);
  core_.SendTo(*member, Welcome{core_.boot, member->record().incarnation, resumed, core_.options.heartbeat_interval,
                                core_.options.membership_timeout, FatesOf(StateOf(e.hello.job), core_.boot, e.hello),
                                core_.options.boot_nonce});
  if (member->draining()) core_.SendTo(*member, DrainRequested{kDrainAsked});
  core_.Note({}, "worker joined",
             absl::StrCat("worker ", e.hello.worker.value, resumed ? " is back with" : " joins with", " incarnation ",
                          member->record().incarnation.value),
             {{"worker", e.hello.worker.value}});
  Job* const job = JobOf(*member);
  if (resumed && job != nullptr) job->WelcomeBack(*member, e.hello.leases);
}

void Machine::Join(Member& member, const Hello& hello) {
  if (Job* const job = JobOf(member)) job->Rejoin(hello.worker);
  if (member.record().incarnation.value != 0) DropWork(member, "a new incarnation has joined");
  member.Join(hello, core_.NewIncarnation());
  core_.fleet.Touch(hello.worker);
}

void Machine::On(const ConnectionClosed& e) {
  if (Member* member = core_.fleet.OnConnection(e.connection)) core_.fleet.Disconnect(*member);
}

// The worker cannot come back: rounds do not wait for it, and its leases are returned at once.
void Machine::On(const WorkerRevoked& e) {
  Member* member = core_.fleet.Find(e.worker);
  if (member != nullptr && member->connection()) Hear(*member, Leaving{"its certificate was revoked"});
}

Duration Machine::AbsenceOf(const Member& member) const {
  if (!member.has_spoken()) return kAbsenceOverAStart;
  const Run* run = StateOf(member.record().job);
  const Duration period = run == nullptr ? Duration{} : PeriodOf(*run, member);
  return period.ns > 0 ? period : core_.options.membership_timeout;
}

void Machine::ExpireMembers() {
  for (auto& [id, member] : core_.fleet.members()) {
    if (!member.lost() && core_.now >= member.heard() + core_.options.membership_timeout) {
      member.Lose(core_.now);
      core_.Disconnect(member);
      // No note for a member without a job that has not returned since the start: it may have left long ago.
      if (member.has_spoken() || member.Assigned()) {
        core_.Note(member.record().job, "worker lost",
                   absl::StrCat("worker ", id.value, " is lost: nothing heard for ",
                                SecondsOf(core_.options.membership_timeout)),
                   {{"worker", id.value}});
      }
      if (Job* const job = JobOf(member)) job->Lose(id);
    }
    if (member.lost() && member.Assigned() && core_.now >= member.lost_at() + AbsenceOf(member)) {
      Fence(member,
            member.has_spoken() ? "it was away for a period" : "the coordinator has not heard it since its start");
    }
    if (!member.rests_from().value.empty() && core_.now >= member.rests_until()) {
      if (Job* const job = Find(member.rests_from())) job->Forgive(id);
      member.Unbar(member.rests_from());
    }
  }
}

void Machine::Excuse(Duration time) {
  for (auto& [id, member] : core_.fleet.members()) member.Excuse(time, core_.now);
  for (auto& [id, job] : jobs_) job.Excuse(time);
}

void Machine::On(const CoordinatorStalled& e) {
  for (auto& [id, job] : jobs_) {
    if (!job.run().Gathers()) continue;
    core_.Note(
        id, "coordinator stalled",
        absl::StrCat("the coordinator did not run for ", SecondsOf(e.time),
                     ": its process was stopped or its machine asleep; nobody counts as silent or late for that time"));
  }
}

void Machine::DropWork(Member& member, const std::string& why) {
  if (Job* const job = JobOf(member)) return job->Drop(member, why);
  core_.Free(member);
}

void Machine::Fence(Member& member, const std::string& why) {
  DropWork(member, why);
  member.Fence(core_.NewIncarnation());
}

// Workers that went away stay visible to people for a while and are then forgotten, so that neither the fleet nor the
// ledger grows with every name ever used. This is safe: a forgotten worker has no job, its leases were taken back,
// and numbers of incarnations and leases are never reused. If it comes back, it joins as a new worker, and its
// earlier leases are void.
void Machine::ForgetMembers() {
  const auto long_gone = [this](const Member& member) {
    return core_.now >= member.lost_at() + limits::kGoneWorkerMemory;
  };
  std::vector<const Member*> gone;
  bool any = false;
  for (const auto& [id, member] : core_.fleet.members()) {
    if (!member.Gone()) continue;
    gone.push_back(&member);
    any = any || long_gone(member);
  }
  size_t excess = gone.size() - std::min<size_t>(gone.size(), limits::kGoneWorkers);
  if (!any && excess == 0) return;
  // After a restart, all have the same loss time: then the members that were fenced first are forgotten first.
  std::sort(gone.begin(), gone.end(), [](const Member* a, const Member* b) {
    return std::pair(a->lost_at(), a->record().incarnation) < std::pair(b->lost_at(), b->record().incarnation);
  });
  std::vector<std::pair<WorkerId, std::string>> forgotten;
  for (const Member* member : gone) {
    const bool is_long = long_gone(*member);
    if (!is_long && excess == 0) break;
    const WorkerId& id = member->record().worker;
    if (std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& j) { return j.second.run().Names(id); })) continue;
    excess -= excess > 0 ? 1 : 0;
    forgotten.emplace_back(
        id, is_long ? absl::StrCat("it is gone for ", limits::kGoneWorkerMemory.ns / Seconds(86'400).ns, " days")
                    : absl::StrCat("more than ", limits::kGoneWorkers, " workers are gone, and it went first"));
  }
  for (const auto& [worker, why] : forgotten) Forget(worker, why);
}

void Machine::Forget(const WorkerId& worker, const std::string& why) {
  for (auto& [id, job] : jobs_) job.Forget(worker);
  core_.fleet.Forget(worker);
  core_.Note(
      {}, "worker forgotten",
      absl::StrCat("worker ", worker.value, " is forgotten: ", why, "; should it come back, it joins as a new one"),
      {{"worker", worker.value}});
}

}  // namespace atl
