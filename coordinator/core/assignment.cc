// SPDX-License-Identifier: Apache-2.0
// Applies the queue's decisions, brings workers into a job, and does what is due in a job after each event.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/sync_schedule.h"
#include "coordinator/core/fetching.h"
#include "coordinator/core/machine.h"
#include "coordinator/core/pace.h"
#include "coordinator/core/queue.h"

namespace atl {
namespace {

// A joiner starts kJoinerAhead clock steps ahead of the others, if a period has at least kLongPeriod steps.
constexpr uint64_t kJoinerAhead = 2, kLongPeriod = 10;
constexpr Duration kRest = Seconds(60);  // bar after a fetch that took too long; others may take the place

// A cordoned worker may return to its own job, and gets no other: adds all other jobs to `barred`.
void KeepFromOthers(const std::vector<QueuedJob>& jobs, const Member& member, std::set<JobId>& barred) {
  for (const QueuedJob& job : jobs) {
    if (job.job != member.record().job) barred.insert(job.job);
  }
}

// The step at which a joiner starts, and the time of a clock step. The step is the larger of the job's estimated
// clock and the newest contribution's step: at a lower one the joiner would repeat sends of this period, and send
// late. It stays below the send step of a round that cannot reach its quorum without a joiner: the workers that have
// sent to that round wait at its apply step, and a joiner that starts after the send step would reach it only a
// period later. Every send step counts, because a contribution may be in flight.
std::pair<uint64_t, Duration> ClockOfJoiner(const Run& run, const CoreContext& core) {
  if (run.record.state == JobState::kClosing)
    return {ClockOf(run, core.fleet), {}};  // send steps may be the stop step there
  const SyncSchedule schedule(run.inner_steps(), run.spec->sync.overlap_steps, run.record.fragments);
  uint64_t newest = NewestStep(run, core.fleet), wanted = UINT64_MAX;
  bool waits = false;  // a round waits for a joiner: the clock is stopped
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    const Round& round = run.rounds[p];
    const size_t most = round.Arrived() + round.Missing().size();
    const bool needs_joiner = !round.closing() && most < round.Quorum(RuleOf(run, core.fleet, FragmentIndex{p}));
    waits = waits || needs_joiner;
    for (const auto& [worker, arrival] : round.accepted()) {
      newest = std::max(newest, arrival.header.send_step);
      if (needs_joiner) wanted = std::min(wanted, std::max<uint64_t>(arrival.header.send_step, 1) - 1);
    }
    uint64_t committed = 0;
    for (const auto& [worker, merged] : round.committed()) committed = std::max(committed, merged.header.send_step);
    newest = std::max(newest, committed);
    committed = std::min(committed, run.ClockStep(UINT64_MAX));
    const bool known = committed > 0 || round.version().value == 0;  // false just after a rollback
    if (needs_joiner && known) wanted = std::min(wanted, schedule.NextSendStep(FragmentIndex{p}, committed + 1) - 1);
  }
  if (waits) {
    const uint64_t clock = run.ClockStep(newest);
    const uint64_t least = clock - std::min<uint64_t>(clock, run.inner_steps());  // a bound: send steps are claims
    return {std::clamp(wanted, least, clock), {}};
  }
  Duration pace{};
  for (const auto& [id, member] : core.fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.stage() != Stage::kTraining) continue;
    const Duration step = ClockPace(PeriodOf(run, member), run.inner_steps());
    newest = std::max(newest,
                      StepByNow(member.step(), core.now - member.step_at(), step, core.options.heartbeat_interval * 2));
    if (!member.lost() && step.ns > 0 && (pace.ns == 0 || step < pace)) pace = step;
  }
  // Slightly ahead of the others: a round that does not expect the joiner takes its contribution
  // only if it arrives no later than theirs.
  const bool ahead = pace.ns > 0 && run.inner_steps() >= kLongPeriod;
  return {run.ClockStep(ahead ? newest + kJoinerAhead : newest), pace};
}

}  // namespace

void Machine::Advance() {
  AssignWorkers();
  AssignEvaluators();
  for (auto& [id, job] : jobs_) job.Advance();
}

void Job::Advance() {
  if (HasEnded(run_.record.state)) return;
  if (run_.record.state == JobState::kWaitingForWorkers &&
      core_.fleet.TrainersOf(run_.id()).size() >= run_.LeastWorkers()) {
    if (run_.record.start_wall_nanos == 0) run_.record.start_wall_nanos = core_.wall_nanos;
    SetState(JobState::kRunning, "");
    // No worker could contribute while the job waited: its rounds begin now.
    OpenRounds();
  }
  AdvanceFetches();
  AdmitWorkers();
  RetryOnceDue();
  if (run_.pool.Unleased() == 0) RecoverAbsentLeases();
  run_.used_up = UsedUp(run_, core_.fleet);
  for (const WorkerId& worker : run_.used_up) {  // no open round waits for it, except where it is sending
    for (Round& round : run_.rounds) round.PassFinished(worker);
  }
  CheckStop();
  AdvanceEvaluation();
  if (run_.record.state == JobState::kClosing) AdvanceClosing();
  if (!HasEnded(run_.record.state)) AdvanceRounds();
}

void Machine::AssignWorkers() {
  std::vector<QueuedJob> jobs;
  for (const auto& [id, queued] : jobs_) {
    const Run& run = queued.run();
    if (!run.Open() || !run.loaded) continue;
    QueuedJob job{id,    run.record.spec.priority,  run.record.sequence, Needed(run), run.MostWorkers(),
                  false, core_.fleet.TrainersOf(id)};
    job.started = run.record.state != JobState::kWaitingForWorkers;
    const auto have = static_cast<uint32_t>(job.workers.size());
    // An ending job takes new workers only up to its minimum.
    if (run.record.state == JobState::kClosing) job.max = std::max(have, job.min);
    // It also keeps its workers, because they may have something to contribute, or count as
    // finished for its minimum.
    if (run.record.state == JobState::kClosing && run.ending == Ending::kRounds) job.keep = have;
    jobs.push_back(std::move(job));
  }
  std::vector<FreeWorker> free;
  std::map<WorkerId, std::set<JobId>> barred;
  for (const auto& [id, member] : core_.fleet.members()) {
    if (!member.barred().empty()) barred.emplace(id, member.barred());
    // A disconnected worker cannot take over a job; it returns to its own with all its state.
    if (member.record().cordoned || !member.connection()) KeepFromOthers(jobs, member, barred[id]);
    const bool able = member.connection() && !member.draining() && !member.lost() && !member.record().evaluate_only;
    if (able && !member.record().cordoned && !member.Assigned()) free.push_back({id, member.barred()});
  }
  for (const Move& move : PlanMoves(std::move(jobs), std::move(free), barred)) {
    Member& member = *core_.fleet.Find(move.worker);
    if (!move.from.value.empty()) Find(move.from)->Detach(member, WhyMoved(*StateOf(move.from), StateOf(move.to)));
    if (!move.to.value.empty()) Find(move.to)->Assign(member);
  }
}

void Machine::AssignEvaluators() {
  for (auto& [id, member] : core_.fleet.members()) {
    if (!member.record().evaluate_only || !member.connection() || member.draining() || member.Assigned()) continue;
    if (member.record().cordoned) continue;
    Job* best = nullptr;
    for (auto& [job, candidate] : jobs_) {
      const Run& run = candidate.run();
      const bool wants = run.Open() && run.loaded && run.record.held_out_samples > 0 && !member.barred().contains(job);
      const auto there = core_.fleet.Of(job);
      const bool served = std::any_of(there.begin(), there.end(), [](const auto& other) {
        return other.member.record().evaluate_only && !other.member.lost();
      });
      if (!wants || served) continue;
      const auto rank = [](const Run& r) { return std::pair(-int64_t{r.record.spec.priority}, r.record.sequence); };
      if (best == nullptr || rank(run) < rank(best->run())) best = &candidate;
    }
    if (best != nullptr) best->Assign(member);
  }
}

void Job::Assign(Member& member) {
  core_.fleet.Assign(member, run_.id());
  member.Fetch(core_.now);
  const uint64_t clock = SendAssignment(member);
  core_.Note(
      run_.id(), "worker assigned",
      absl::StrCat("worker ", member.record().worker.value, " fetches job ", run_.id().value, " at step ", clock),
      {{"worker", member.record().worker.value}});
}

uint64_t Job::SendAssignment(Member& member) {
  const auto [clock, pace] = ClockOfJoiner(run_, core_);
  core_.SendTo(member, Assignment{run_.id(), run_.record.spec_revision, run_.spec, clock, run_.Versions(), pace,
                                  run_.record.epoch, run_.layout});
  member.SentAssignment();
  if (run_.record.state == JobState::kClosing) {
    core_.SendTo(member, ClosingStarted{run_.id(), run_.record.stop_step, run_.Versions()});
  }
  return clock;
}

// At each missed deadline of a worker's fetch: reports it, and after kFetchDeadlines takes the worker off
// the job, so that another worker can have its place and no round waits for it forever.
void Job::AdvanceFetches() {
  for (auto& [id, member] : core_.fleet.Of(run_.id())) {
    if (member.lost() || member.stage() != Stage::kFetching) continue;
    if (!run_.loaded) member.HoldFetch(core_.now);  // the parameters are not available yet
    if (core_.now < FetchDeadlineOf(run_, member)) continue;
    const FetchTime time = FetchTimeOf(*run_.spec, member.heartbeat().download_bytes_per_second);
    const std::string since = absl::StrCat("in ", SecondsOf(core_.now - member.fetch_since()), " (", time.reason, ")");
    const std::string& waits = member.heartbeat().waiting_for;
    const std::string what = waits.empty() ? "" : absl::StrCat("; it waits for ", waits);
    if (member.ReportFetch() < kFetchDeadlines) {
      core_.Note(run_.id(), "fetch overdue",
                 absl::StrCat("worker ", id.value, " has not fetched job ", run_.id().value, " ", since, what,
                              "; next report in ", SecondsOf(FetchDeadlineOf(run_, member) - core_.now)),
                 {{"worker", id.value}});
      continue;
    }
    const std::string why = absl::StrCat("it has not fetched the job ", since, what);
    run_.failures[id] = {why};
    core_.Note(run_.id(), "left out",
               absl::StrCat("worker ", id.value, " is taken off job ", run_.id().value, ": ", why,
                            "; where nobody else has its place it is given the job again in ", SecondsOf(kRest)),
               {{"worker", id.value}});
    member.Rest(run_.id(), core_.now + kRest);
    Detach(member, why);
  }
}

// No round waits for a worker with a slow link, if the workers with fast links suffice for workers.min and
// sync.quorum. Otherwise all workers are admitted, and the run is as slow as its links.
void Job::AdmitWorkers() {
  uint32_t fast = 0;
  for (const auto& [id, member] : core_.fleet.Of(run_.id())) {
    const bool there =
        member.Trains(run_.id()) && !member.lost() && !member.draining() && member.stage() == Stage::kTraining;
    fast += there && member.link_too_slow().empty() ? 1 : 0;
  }
  const bool suffice = fast >= run_.LeastExpected();
  for (auto& [id, member] : core_.fleet.Of(run_.id())) {
    if (!member.Trains(run_.id()) || member.lost()) continue;
    const bool excluded = suffice && !member.link_too_slow().empty();
    if (excluded == member.not_waited_for()) continue;
    member.Exclude(excluded);
    const std::string why =
        excluded ? absl::StrCat(member.link_too_slow(), "; no round waits for it until it carries that")
        : member.link_too_slow().empty() ? absl::StrCat("the link of worker ", id.value, " carries what the job needs")
                                         : absl::StrCat("too few workers have a faster link than worker ", id.value);
    core_.SendTo(member, LinkJudged{run_.id(), !excluded, why});
    core_.Note(run_.id(), excluded ? "worker not admitted" : "worker admitted", why, {{"worker", id.value}});
  }
}

}  // namespace atl
