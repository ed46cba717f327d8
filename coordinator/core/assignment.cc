// SPDX-License-Identifier: Apache-2.0
// Applies the queue's decisions, and advances the runs after each event.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/sync_schedule.h"
#include "coordinator/core/machine.h"
#include "coordinator/core/pace.h"
#include "coordinator/core/queue.h"
#include "coordinator/core/used_up.h"

namespace atl {
namespace {

// kJoinerAhead: in steps of the job clock, for periods of at least kLongPeriod steps.
constexpr uint64_t kJoinerAhead = 2, kLongPeriod = 10;

// A cordoned worker may return to its own job, and get no other.
void KeepFromOthers(const std::vector<QueuedJob>& jobs, const Member& member, std::set<JobId>& barred) {
  for (const QueuedJob& job : jobs) {
    if (job.job != member.record().job) barred.insert(job.job);
  }
}

// The step at which a joiner starts: the job's estimated clock, or the step of the newest contribution. At a
// lower step the joiner would repeat sends of this period, and send late. The step stays below the send step of
// a round that cannot reach its quorum without a joiner: the workers that have sent to that round wait at its
// apply step, and a joiner that starts after the send step would reach it only a period later. A contribution
// may be in flight, so every send step counts, whether or not a contribution has arrived.
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
    for (const auto& [worker, header] : round.committed()) committed = std::max(committed, header.send_step);
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
  for (auto& [id, run] : runs_) {
    if (!HasEnded(run.record.state)) AdvanceRun(run);
  }
}

void Machine::AdvanceRun(Run& run) {
  if (run.record.state == JobState::kWaitingForWorkers &&
      core_.fleet.TrainersOf(run.id()).size() >= run.LeastWorkers()) {
    if (run.record.start_wall_nanos == 0) run.record.start_wall_nanos = core_.wall_nanos;
    SetState(run, JobState::kRunning, "");
    // No worker could contribute while the job waited: its rounds begin now.
    for (uint32_t p = 0; p < run.rounds.size(); ++p) {
      if (!run.rounds[p].closing()) OpenRound(run, FragmentIndex{p});
    }
  }
  AdvanceFetches(run);
  AdmitWorkers(run);
  RetryOnceDue(run);
  if (run.pool.Unleased() == 0) RecoverAbsentLeases(run);
  MarkUsedUp(run, core_.fleet);
  CheckStop(run);
  AdvanceEvaluation(run);
  if (run.record.state == JobState::kClosing) AdvanceClosing(run);
  if (!HasEnded(run.record.state)) AdvanceRounds(run);
}

void Machine::AssignWorkers() {
  std::vector<QueuedJob> jobs;
  for (const auto& [id, run] : runs_) {
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
    if (!move.from.value.empty())
      Detach(member, move.to.value.empty() ? WhyTooMany(*Find(move.from)) : WhyMoved(*Find(move.from), *Find(move.to)));
    if (!move.to.value.empty()) Assign(member, *Find(move.to));
  }
}

void Machine::AssignEvaluators() {
  for (auto& [id, member] : core_.fleet.members()) {
    if (!member.record().evaluate_only || !member.connection() || member.draining() || member.Assigned()) continue;
    if (member.record().cordoned) continue;
    Run* best = nullptr;
    for (auto& [job, run] : runs_) {
      const bool wants = run.Open() && run.loaded && run.record.held_out_samples > 0 && !member.barred().contains(job);
      const auto there = core_.fleet.Of(job);
      const bool served = std::any_of(there.begin(), there.end(), [](const auto& other) {
        return other.member.record().evaluate_only && !other.member.lost();
      });
      if (!wants || served) continue;
      const auto rank = [](const Run& r) { return std::pair(-int64_t{r.record.spec.priority}, r.record.sequence); };
      if (best == nullptr || rank(run) < rank(*best)) best = &run;
    }
    if (best != nullptr) Assign(member, *best);
  }
}

void Machine::Assign(Member& member, Run& run) {
  core_.fleet.Assign(member, run.id());
  member.Fetch(core_.now);
  const uint64_t clock = SendAssignment(member, run);
  core_.Note(run.id(), "worker assigned",
             absl::StrCat("worker ", member.record().worker.value, " fetches job ", run.id().value, " at step ", clock),
             {{"worker", member.record().worker.value}});
}

uint64_t Machine::SendAssignment(Member& member, const Run& run) {
  const auto [clock, pace] = ClockOfJoiner(run, core_);
  core_.SendTo(member, Assignment{run.id(), run.record.spec_revision, run.spec, clock, run.Versions(), pace,
                                  run.record.epoch, run.layout});
  member.SentAssignment();
  if (run.record.state == JobState::kClosing) {
    core_.SendTo(member, ClosingStarted{run.id(), run.record.stop_step, run.Versions()});
  }
  return clock;
}

}  // namespace atl
