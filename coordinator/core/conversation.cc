// SPDX-License-Identifier: Apache-2.0
// Handles the workers' messages on the control stream.
#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/saturating.h"
#include "common/plan/limits.h"
#include "common/plan/shards.h"
#include "coordinator/core/machine.h"
#include "coordinator/core/pace.h"

namespace atl {
namespace {

// JobFailure has only a text. Workers write one of these two phrases if the samples of a range may be poisoned.
bool SpeaksOfNonFinite(const std::string& reason) {
  return reason.find("not finite") != std::string::npos || reason.find("non-finite") != std::string::npos;
}

// Whether at least two, and most, of the job's training members are `deviants`. Members without the parameters, or
// not yet back since a restart, count as training, so that the first few reports alone stop nothing.
bool IsMajority(const Fleet& fleet, const JobId& job, const std::set<WorkerId>& deviants) {
  size_t there = 0, deviating = 0;
  for (const auto& [id, member] : fleet.Of(job)) {
    if (!member.Trains(job) || member.lost()) continue;
    ++there;
    deviating += member.stage() == Stage::kTraining && deviants.contains(id) ? 1 : 0;
  }
  return deviating >= 2 && 2 * deviating > there;
}

void SuspectRanges(Run& run, CoreContext& core, const WorkerId& worker, const std::vector<SampleRange>& held) {
  for (const SampleRange& range : held) {
    uint64_t settled = 0;
    for (auto it = run.suspects.begin(); it != run.suspects.end();) {
      const auto& [other, suspect] = *it;
      const SampleRange both{std::max(range.begin, suspect.begin), std::min(range.end, suspect.end)};
      const uint64_t count = other == worker || both.begin >= both.end ? 0 : run.pool.Abandon(both);
      if (count > 0) {
        core.Note(run.id(), "samples abandoned",
                  absl::StrCat(count, " samples at [", both.begin, ", ", both.end, ") made workers ", other.value,
                               " and ", worker.value, " non-finite and are left out; look at the data there"),
                  {{"begin", absl::StrCat(both.begin)}, {"end", absl::StrCat(both.end)}});
      }
      settled += count;
      it = count == suspect.size() ? run.suspects.erase(it) : std::next(it);  // never leased again
    }
    if (settled == range.size()) continue;
    std::erase(run.suspects, std::pair(worker, range));  // a range of an earlier failure moves to the newest
    if (run.suspects.size() == Run::kSuspects) run.suspects.erase(run.suspects.begin());
    run.suspects.emplace_back(worker, range);
  }
}

// The positions that the worker may lease: its corpus with data.assignment: shards, else all. None: no corpus is free.
std::optional<SampleRange> PositionsFor(Run& run, CoreContext& core, const WorkerId& worker) {
  if (!run.spec->data.pin_shards) return SampleRange{0, UINT64_MAX};
  std::set<WorkerId> present;
  for (const auto& [id, member] : core.fleet.Of(run.id())) {
    if (member.Trains(run.id()) && !member.lost()) present.insert(id);
  }
  const std::optional<uint32_t> before = run.shards.Of(worker);
  const std::optional<uint32_t> corpus = run.shards.Take(worker, present);
  if (!corpus) return std::nullopt;
  if (before != corpus) {
    const std::string& name = run.spec->data.corpora[*corpus].name;
    core.Note(run.id(), "corpus pinned", absl::StrCat("worker ", worker.value, " reads corpus ", name),
              {{"worker", worker.value}, {"corpus", name}});
  }
  return ShardRange(*corpus);
}

// Why the job breaks off after a failure for `reason`; empty: others can continue.
std::string WhyBroken(const Run& run, const Fleet& fleet, const std::string& reason) {
  const auto able = std::ranges::count_if(fleet.members(), [&](const auto& entry) {
    const Member& member = entry.second;
    const bool may_come = !member.barred().contains(run.id()) || member.rests_from() == run.id();
    return !member.lost() && !member.record().evaluate_only && may_come;
  });
  // Only members that are present count: machines that leave soon, with faults of their own, do not
  // outvote the others.
  const auto hopeless = std::ranges::count_if(run.failures, [&](const auto& entry) {
    const Member* member = fleet.Find(entry.first);
    return entry.second.for_all && member != nullptr && !member->lost();
  });
  const size_t failed = run.failures.size();
  // Whether the only worker left is the one with the most remarks on its contributions: it may have broken the model.
  const Member* suspect = fleet.Find(run.remarks.Suspect());
  const bool left = suspect != nullptr && suspect->record().job == run.id() && !suspect->lost() && able == 1;
  if (SpeaksOfNonFinite(reason) && left) {
    return absl::StrCat(failed, failed == 1 ? " worker" : " workers", " met losses that are not finite; ",
                        run.remarks.Line(), "; the last said: ", reason);
  }
  if (able > 0 && hopeless <= able) return "";
  if (able > 0)
    return absl::StrCat(hopeless, " of ", hopeless + able, " workers say that none can go on; the last said: ", reason);
  return failed == 1 ? absl::StrCat("its only worker failed: ", reason)
                     : absl::StrCat("all ", failed, " workers failed; the last said: ", reason);
}

// Judges the worker's link at each of its heartbeats. Without measured rates or a step time, the verdict stays.
void JudgeLinkOf(const Run& run, Member& member) {
  const bool counts = member.Trains(run.id()) && member.stage() == Stage::kTraining;
  const LinkRates rates{member.heartbeat().upload_bytes_per_second, member.heartbeat().download_bytes_per_second};
  const bool measured = rates.upload_bytes_per_second > 0 || rates.download_bytes_per_second > 0;
  if (!counts || !measured || member.heartbeat().step_ns <= 0) return;
  const LinkVerdict verdict =
      JudgeLink(member.record().worker, run.traffic, PeriodOf(run, member), rates, member.link_too_slow().empty());
  member.JudgeLink(verdict.reason);
}

// Sends the worker another pace if that is worth it: at each of its heartbeats, which contain the present pace. So
// nothing has to survive a restart, and a lost message is sent again.
void BalancePace(const Run& run, CoreContext& core, Member& member) {
  const bool paced = run.spec->sync.pace == Pace::kBalanced && run.Gathers() && member.Trains(run.id()) &&
                     member.stage() == Stage::kTraining;
  if (!paced || member.heartbeat().step_ns <= 0 || member.heartbeat().period_steps == 0) return;
  Duration fastest{member.heartbeat().step_ns};
  for (const auto& [id, other] : core.fleet.Of(run.id())) {
    const bool counts =
        other.Trains(run.id()) && !other.lost() && !other.draining() && other.stage() == Stage::kTraining;
    if (counts && other.heartbeat().step_ns > 0) fastest = std::min(fastest, Duration{other.heartbeat().step_ns});
  }
  const uint32_t present = member.heartbeat().period_steps;
  const uint32_t wanted = BalancedSteps(run.inner_steps(), Duration{member.heartbeat().step_ns}, fastest);
  if (!WorthChanging(present, wanted)) return;
  core.SendTo(member, PaceAssigned{run.id(), wanted});
  if (!member.NotePace(wanted)) return;
  core.Note(
      run.id(), "pace",
      absl::StrCat("worker ", member.record().worker.value, " takes ", wanted, " of ", run.inner_steps(),
                   " steps a period, ", present, " before: its step takes ", member.heartbeat().step_ns / 1'000'000,
                   " ms, the fastest worker's ", fastest.ns / 1'000'000, " ms"),
      {{"worker", member.record().worker.value}, {"steps", absl::StrCat(wanted)}});
}

void NoteDeviant(CoreContext& core, const Member& member, const Applied& message) {
  core.Note(message.job, kDeviant,
            absl::StrCat("worker ", member.record().worker.value, " holds other bits than published for fragment ",
                         message.applied.fragment.value, " version ", message.applied.version.value,
                         "; it fetches the whole fragment"),
            {{"worker", member.record().worker.value}});
}

}  // namespace

void Machine::On(const WorkerSaid& e) {
  Member* member = core_.fleet.OnConnection(e.connection);
  if (member == nullptr) return;  // from a superseded stream
  member->Hear(core_.now);
  std::visit(
      [&]<typename M>(const M& message) {
        if constexpr (requires(Job & job) { job.Hear(*member, message); }) {
          Job* const job = JobOf(*member);
          if (job != nullptr && message.job == job->run().id()) return job->Hear(*member, message);
        }
        // Hello and LogLines have no handler: Hello is only the first message, and the engine forwards log lines.
        if constexpr (requires { Hear(*member, message); }) Hear(*member, message);
      },
      e.message);
}

// A message for a job that this worker is not assigned to, or for no job; the same in the next two functions.
void Machine::Hear(Member& member, const Heartbeat& message) {
  member.Report(message);
  if (message.job == member.record().job) member.Reached(message.step, core_.now);
}

void Machine::Hear(Member& member, const LeaseRequest& message) {
  core_.SendTo(member, LeaseDenied{message.job, message.request, "this worker is not assigned to the job"});
}

void Machine::Hear(Member& member, const Applied& message) {
  if (message.job == member.record().job && !message.hash_matches) NoteDeviant(core_, member, message);
}

void Job::Hear(Member& member, const Heartbeat& message) {
  member.Report(message);
  member.Reached(message.step, core_.now);
  JudgeLinkOf(run_, member);
  BalancePace(run_, core_, member);
}

void Job::Hear(Member& member, const LeaseRequest& message) {
  if (const LeaseRecord* lease = run_.pool.FindRequest(member.record(), message.request))
    return core_.SendTo(member, LeaseGranted{run_.id(), message.request, lease->lease, lease->range});
  // The worker sent this request before the job was assigned to it again. It has dropped that state, so granted
  // samples would not be trained. A training worker not known as such to the coordinator asks again after Ready.
  if (member.stage() != Stage::kTraining) return;
  std::string why_not;
  if (GrantLease(member, message, &why_not)) return;
  member.Wish(message);
  core_.SendTo(member, LeaseDenied{run_.id(), message.request, why_not});
}

bool Job::GrantLease(Member& member, const LeaseRequest& wish, std::string* why_not) {
  const uint64_t per_step = run_.spec->batch.sequences_per_step;
  uint64_t samples = wish.samples;
  if (run_.record.state == JobState::kClosing) {
    const uint64_t left = run_.record.stop_step > member.step() ? run_.record.stop_step - member.step() : 0;
    samples = std::min(samples, run_.ending == Ending::kRounds ? MulSat(left, per_step) : 0);
    if (samples == 0) *why_not = "the job is ending";
  } else if (run_.record.state != JobState::kRunning) {
    samples = 0;
    *why_not = absl::StrCat("the job is ", NameOf(run_.record.state));
  }
  const uint64_t limit = run_.LeaseLimit(member.record().worker);
  if (samples > 0 && run_.pool.HeldBy(member.record().worker).size() >= limits::kLeasesHeld) {
    *why_not = absl::StrCat("the worker holds ", limits::kLeasesHeld, " leases; use some of them up first");
    return false;
  }
  const uint64_t outstanding = run_.pool.Outstanding(member.record().worker);
  if (samples > 0 && outstanding >= limit) {
    *why_not =
        absl::StrCat(outstanding, " leased samples are in no committed contribution yet; at most ", limit, " may be");
    return false;
  }
  if (samples > 0 && run_.pool.Unleased() == 0) RecoverAbsentLeases();
  if (samples > 0 && run_.pool.Unleased() == 0) {
    *why_not = "the dataset is used up";
    return false;
  }
  if (samples == 0) return false;
  const auto within = PositionsFor(run_, core_, member.record().worker);
  if (!within) {
    *why_not = "each corpus is read by another worker (data.assignment: shards)";
    return false;
  }
  core_.counters_touched = true;
  const LeaseId id{core_.counters.next_lease++};
  const auto lease =
      run_.pool.Grant(id, member.record(), wish.request, std::min(samples, limit - outstanding), *within);
  member.Granted();
  core_.SendTo(member, LeaseGranted{run_.id(), wish.request, id, lease->range});
  return true;
}

void Job::RecoverAbsentLeases() {
  for (auto& [id, member] : core_.fleet.Of(run_.id())) {
    if (!member.lost()) continue;
    Drop(member, "the pool is empty and it is lost");
    member.Fence(core_.NewIncarnation());
  }
}

void Job::Hear(Member& member, const Ready& message) {
  const WorkerId& id = member.record().worker;
  // At the end of a job, the step of a Ready is a message ("nothing more comes"), not a position.
  if (run_.record.state != JobState::kClosing) member.Reached(message.step, core_.now);
  const bool joins = member.stage() != Stage::kTraining;
  // True: the worker may not have known about the end when it sent this message. The step is then its
  // position, and it may hold work.
  const bool answers = member.AnswerAssignment();
  // Newer versions were published while the worker was away, or it took an older snapshot for the
  // newest version: contributions to the older versions would be late. A fragment that is named again
  // has no further answer.
  std::set<FragmentIndex> answered;
  for (const FragmentVersion& at : message.applied) {
    const uint32_t p = at.fragment.value;
    if (p < run_.rounds.size() && at.version < run_.rounds[p].version() && answered.insert(at.fragment).second)
      core_.SendTo(member, run_.NewestUpdate(at.fragment));
  }
  member.Train();
  if (run_.record.state == JobState::kClosing) {
    // A worker without leases that joins an ending job has no drift.
    const bool empty = joins && run_.pool.HeldBy(id).empty();
    if (!answers && (empty || message.step >= run_.record.stop_step)) member.Finish(false);
    // A worker that was fetching has not received ClosingStarted. After a restart of the coordinator this may also
    // apply to a worker with the stage kTraining. A worker that already has it answers by repeating its final Ready,
    // if it has sent that.
    if (joins || answers) core_.SendTo(member, ClosingStarted{run_.id(), run_.record.stop_step, run_.Versions()});
  }
  if (!joins || member.record().evaluate_only || member.draining() || !run_.Gathers()) return;
  AllowAfresh(id);
  for (Round& round : run_.rounds) round.ExpectJoiner(id);
  core_.Note(run_.id(), "worker training", absl::StrCat("worker ", id.value, " trains from step ", message.step),
             {{"worker", id.value}});
}

void Job::Hear(Member& member, const Applied& message) {
  const WorkerId& id = member.record().worker;
  const FragmentVersion& at = message.applied;
  const bool published =
      at.fragment.value < run_.rounds.size() && at.version <= run_.rounds[at.fragment.value].version();
  std::set<WorkerId> deviants;
  if (published && member.Trains(message.job) && member.stage() == Stage::kTraining)
    deviants = run_.replicas.Hear(at, id, message.hash_matches);
  if (message.hash_matches) return;
  DropUploads(&id, absl::AbortedError("withdrawn: the replica deviates from the published version"));
  NoteDeviant(core_, member, message);
  if (IsMajority(core_.fleet, message.job, deviants)) On(TaskFailed{run_.id(), DeviationLine(run_.id(), at)});
}

void Job::Hear(Member& member, const LeaseReturn& message) {
  const WorkerId& id = member.record().worker;
  // A worker that returns leases has withdrawn its uploads.
  DropUploads(&id, absl::AbortedError("withdrawn: the leases behind it were returned"));
  LeaseId newest;
  for (const LeaseCursor& c : message.leases) {
    const LeaseRecord* lease = run_.pool.Find(c.lease);
    if (lease != nullptr && lease->worker == member.record().worker)
      run_.pool.Return(c.lease, run_.AcceptedCursor(c.lease));
    if (c.lease.value < core_.counters.next_lease) newest = std::max(newest, c.lease);
  }
  // A fully returned lease is deleted. A contribution offer that was sent before the return, on the
  // other connection, may still name it although its samples belong to another worker by then.
  // Leases granted meanwhile are newer.
  const std::vector<LeaseId> held = run_.pool.HeldBy(id);
  const bool all = held.empty() || newest < held.front();
  if (!all || newest.value < member.record().leases_from.value) return;
  member.VoidLeasesBefore(LeaseId{newest.value + 1});
  core_.fleet.Touch(id);
}

void Machine::Hear(Member& member, const Leaving& message) {
  core_.Note(member.record().job, "worker left",
             absl::StrCat("worker ", member.record().worker.value, " leaves: ", message.reason),
             {{"worker", member.record().worker.value}});
  Fence(member, "it has left");
  member.Leave(core_.now);
  core_.Disconnect(member);
}

void Job::Hear(Member& member, const JobFailure& message) {
  const WorkerId id = member.record().worker;
  core_.Note(run_.id(), "worker failed", absl::StrCat("worker ", id.value, " cannot go on: ", message.reason),
             {{"worker", id.value}});
  std::vector<SampleRange> held;
  for (const LeaseId number : run_.pool.HeldBy(id)) {
    const LeaseRecord& lease = *run_.pool.Find(number);
    held.push_back({lease.consumed_to, lease.range.end});
  }
  member.Bar(run_.id());
  Detach(member, "it could not go on with this job");
  if (SpeaksOfNonFinite(message.reason)) SuspectRanges(run_, core_, id, held);
  run_.failures[id] = {message.reason, message.permanent};
  if (const std::string why = WhyBroken(run_, core_.fleet, message.reason); !why.empty()) BreakOff(why);
}

void Job::RecoverShards() {
  if (!run_.spec->data.pin_shards) return;
  std::vector<std::tuple<uint64_t, WorkerId, uint32_t>> seen;  // by version: the newest entry counts
  const auto look = [&](const ContributionHeader& header) {
    const auto corpus = ShardOf(header.cursors);
    if (corpus && core_.fleet.Find(header.worker) != nullptr) {
      seen.emplace_back(header.target.version.value, header.worker, *corpus);
    }
  };
  for (const Round& round : run_.rounds) {
    for (const auto& [worker, merged] : round.committed()) look(merged.header);
    for (const auto& [worker, arrival] : round.accepted()) look(arrival.header);
  }
  std::sort(seen.begin(), seen.end());
  for (const auto& [version, worker, corpus] : seen) run_.shards.Saw(worker, corpus);
  for (const auto& [worker, member] : core_.fleet.members()) {
    for (const LeaseId id : run_.pool.HeldBy(worker)) {
      run_.shards.Saw(worker, static_cast<uint32_t>(run_.pool.Find(id)->range.begin / kShardPositions));
    }
  }
}

}  // namespace atl
