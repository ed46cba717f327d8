// SPDX-License-Identifier: Apache-2.0
// The views for people, and the invariants.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

// The worker's newest heartbeat. If that is for another job: its activity and step follow from its stage in this job.
Heartbeat NewestOf(const Member& member, bool silent) {
  Heartbeat last = member.heartbeat();
  if (!member.connection() || silent) last.waiting_for.clear();
  if (last.job == member.record().job) return last;
  Heartbeat now;
  now.sequence = last.sequence;
  now.metrics = std::move(last.metrics);
  now.job = member.record().job;
  now.activity = member.stage() == Stage::kTraining   ? WorkerActivity::kTraining
                 : member.stage() == Stage::kFetching ? WorkerActivity::kFetching
                                                      : WorkerActivity::kIdle;
  now.step = member.step();
  return now;
}

}  // namespace

std::vector<JobId> Machine::Jobs() const {
  std::vector<std::pair<uint64_t, JobId>> order;
  for (const auto& [id, job] : jobs_) order.emplace_back(job.run().record.sequence, id);
  std::sort(order.begin(), order.end());
  std::vector<JobId> jobs;
  jobs.reserve(order.size());
  for (auto& [sequence, id] : order) jobs.push_back(std::move(id));
  return jobs;
}

std::optional<JobView> Machine::ViewJob(const JobId& job, Instant now) const {
  const Run* run = StateOf(job);
  if (run == nullptr) return std::nullopt;
  JobView view;
  view.record = run->record;
  for (const Round& round : run->rounds) {
    const auto missing = static_cast<uint32_t>(round.Missing().size());
    const auto accepted = static_cast<uint32_t>(round.accepted().size());
    const auto dropped = static_cast<uint32_t>(round.dropped().size());
    view.fragments.push_back({round.version(), round.hash(), accepted, accepted + missing, dropped});
  }
  view.balance = run->pool.Balance();
  view.clock_step = ClockOf(*run, core_.fleet);
  view.evaluations = run->evaluation.done();
  view.tokens_committed = run->tokens_committed;
  view.rounds_committed = run->rounds_committed;
  for (const auto& [id, member] : core_.fleet.Of(job)) {
    // A member not heard since the start is waited for, but is not known to be alive.
    if (!member.Trains(job) || member.lost() || !member.has_spoken()) continue;
    ++view.alive;
    view.training += member.stage() == Stage::kTraining ? 1 : 0;
    view.not_waited_for += member.not_waited_for() ? 1 : 0;
  }
  const auto have = static_cast<uint32_t>(core_.fleet.TrainersOf(job).size());
  if (run->Open() && run->loaded) view.missing = Needed(*run) - std::min(have, Needed(*run));
  view.pool = run->spec->experiment.pool == PoolSchedule::kConstant ? 0 : run->PoolNow();
  if (!HasEnded(view.record.state)) view.participating = static_cast<uint32_t>(run->participants.size());
  for (const auto& [step, checkpoint] : run->checkpoints.records()) view.checkpoints.push_back(checkpoint);
  view.stopped = run->record.state == JobState::kPaused && absl::StartsWith(run->record.reason, Job::kStopped);
  view.no_room = !run->no_room.empty();
  view.waiting_line = WaitingLine(*run, core_, now);
  return view;
}

std::vector<WorkerView> Machine::ViewWorkers(Instant now, const JobId* of) const {
  std::vector<WorkerView> views;
  const auto add = [this, &views, now](const WorkerId& id, const Member& member) {
    WorkerView view;
    view.worker = id;
    const bool quarantined = !member.record().quarantine.empty();
    view.evicted = member.record().quarantine == Member::kEvicted;
    view.silence = quarantined ? "" : SilenceOf(member, core_.options.heartbeat_interval, now);
    view.state = quarantined                          ? WorkerState::kQuarantined
                 : member.lost() && member.left()     ? WorkerState::kLeft
                 : member.lost()                      ? WorkerState::kLost
                 : !view.silence.empty()              ? WorkerState::kSilent
                 : member.draining()                  ? WorkerState::kDraining
                 : member.stage() == Stage::kTraining ? WorkerState::kTraining
                 : member.stage() == Stage::kFetching ? WorkerState::kJoining
                                                      : WorkerState::kIdle;
    view.incarnation = member.record().incarnation;
    view.job = member.record().job;
    view.last = NewestOf(member, !view.silence.empty());
    view.device = member.record().device;
    view.connected = member.connection().has_value();
    view.unheard = !member.has_spoken();
    view.evaluate_only = member.record().evaluate_only;
    if (!member.Assigned() && view.silence.empty()) view.last.waiting_for = WhyIdle(jobs_, core_.fleet, member);
    view.cordoned = member.record().cordoned;
    if (view.cordoned && !member.Assigned() && view.silence.empty()) {
      view.last.waiting_for = absl::StrCat("an operator: worker ", id.value, " is cordoned");
    }
    if (quarantined) view.last.waiting_for = absl::StrCat("an operator: ", QuarantineLine(member.record()));
    const Run* run = StateOf(member.record().job);
    view.participating = run != nullptr && run->participants.contains(id);
    const std::optional<uint32_t> corpus = run == nullptr ? std::nullopt : run->shards.Of(id);
    if (corpus) view.corpus = run->spec->data.corpora[*corpus].name;
    view.heartbeat_age = now - member.heard();
    view.link_too_slow = member.link_too_slow();
    view.not_waited_for = member.not_waited_for();
    view.screened = HeldAgainst(member, run);
    views.push_back(std::move(view));
  };
  if (of != nullptr) {
    for (const auto& [id, member] : core_.fleet.Of(*of)) add(id, member);
  } else {
    for (const auto& [id, member] : core_.fleet.members()) add(id, member);
  }
  return views;
}

void Machine::CheckInvariants() const {
  core_.fleet.CheckInvariants();
  std::set<Incarnation> incarnations;
  for (const auto& [id, member] : core_.fleet.members()) {
    const Incarnation incarnation = member.record().incarnation;
    ATOLL_CHECK(incarnation.value != 0 && incarnation.value < core_.counters.next_incarnation,
                "I10: an incarnation nobody gave");
    ATOLL_CHECK(incarnations.insert(incarnation).second, "I10: two workers share an incarnation");
    ATOLL_CHECK(member.record().quarantine.empty() || (!member.connection() && !member.Assigned()),
                "I16: a quarantined worker is connected or has a job");
    ATOLL_CHECK(!member.Assigned() || StateOf(member.record().job) != nullptr,
                "a worker trains a job that is not there");
  }
  for (const auto& [id, job] : jobs_) {
    const Run& run = job.run();
    run.pool.CheckInvariants();
    for (uint32_t p = 0; p < run.rounds.size(); ++p) {
      const Round& round = run.rounds[p];
      ATOLL_CHECK(!round.closing() || round.Arrived() > 0, "I8: an empty round is being closed");
      // A worker lost during the closing leaves the expected ones: the majority becomes smaller, never larger.
      ATOLL_CHECK(!round.closing() || run.spec->sync.quorum != 0 || round.Arrived() > round.Missing().size(),
                  "I8: a round is being closed without a majority");
      for (const auto& [worker, arrival] : round.accepted()) {
        ATOLL_CHECK(arrival.header.target == (FragmentVersion{FragmentIndex{p}, round.version()}),
                    "I1: an accepted contribution belongs to another round");
      }
      for (const auto& [worker, merged] : round.committed()) {
        ATOLL_CHECK(merged.header.target.version < round.version(),
                    "I6: a committed contribution is newer than its fragment");
      }
    }
    for (const auto& [worker, member] : core_.fleet.members()) {
      for (const LeaseId lease : run.pool.HeldBy(worker)) {
        const LeaseRecord& record = *run.pool.Find(lease);
        ATOLL_CHECK(record.incarnation == member.record().incarnation && member.record().job == id,
                    "I9: a lease outlives the incarnation that it was given to");
      }
    }
  }
}

}  // namespace atl
