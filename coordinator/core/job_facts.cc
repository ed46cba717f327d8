// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/job_facts.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/upper_median.h"
#include "coordinator/core/fetching.h"

namespace atl {
namespace {

Duration GraceOf(const Run& run, const Fleet& fleet) {
  std::vector<int64_t> step_ns;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (member.Trains(run.id()) && member.heartbeat().step_ns > 0) step_ns.push_back(member.heartbeat().step_ns);
  }
  const Duration median{step_ns.empty() ? 0 : UpperMedian(std::move(step_ns))};
  return GraceWindow(run.spreads, TimesAtMostADay(median, run.spec->sync.overlap_steps));
}

bool Waits(const Run& run, const Member& member) {
  return member.Trains(run.id()) && !member.lost() && member.stage() == Stage::kTraining &&
         member.heartbeat().activity == WorkerActivity::kWaiting;
}

std::vector<uint64_t> StepsOf(const Run& run, const Fleet& fleet) {  // of its training workers
  std::vector<uint64_t> steps;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (member.Trains(run.id()) && member.stage() == Stage::kTraining) steps.push_back(member.step());
  }
  return steps;
}

}  // namespace

std::vector<WorkerId> OnTheirWay(const Run& run, const Fleet& fleet, const Round& round) {
  std::vector<WorkerId> coming;
  if (!round.held_over() || run.record.state != JobState::kRunning) return coming;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    const bool comes = member.Trains(run.id()) && !member.lost() && !member.draining() && !member.not_waited_for() &&
                       !run.used_up.contains(id);
    const bool evaluates = run.evaluation.IsWith(id);  // for the time of the evaluation
    const bool known = evaluates || round.expected().contains(id) || round.HasArrived(id);
    if (comes && !known) coming.push_back(id);
  }
  return coming;
}

RoundRule RuleOf(const Run& run, const Fleet& fleet, FragmentIndex fragment) {
  RoundRule rule;
  rule.minimum = run.LeastWorkers();
  rule.quorum = std::min(run.spec->sync.quorum, run.MostWorkers());
  const Round& round = run.rounds[fragment.value];
  for (const WorkerId& id : run.used_up) {
    rule.finished += round.HasArrived(id) ? 0 : 1;
  }
  if (run.record.state == JobState::kClosing) {
    for (const auto& [id, member] : fleet.Of(run.id())) {
      const bool counts = member.Trains(run.id()) && !member.lost() && member.stage() == Stage::kTraining;
      const bool done = member.finished() || run.HasClosed(fragment, id, member.step());
      rule.finished += counts && done && !round.accepted().contains(id) ? 1 : 0;
    }
  }
  const std::vector<WorkerId> coming = OnTheirWay(run, fleet, round);
  const auto passed_over = static_cast<size_t>(
      std::count_if(coming.begin(), coming.end(), [&](const WorkerId& id) { return run.PassesOver(fragment, id); }));
  const size_t others = round.Arrived() + round.Missing().size() + coming.size() - passed_over;
  rule.on_their_way = static_cast<uint32_t>(coming.size() - (others < run.LeastExpected() ? 0 : passed_over));
  // Computed only with a quorum, because it visits all members.
  if (round.Arrived() >= round.Quorum(rule)) rule.grace = GraceOf(run, fleet);
  return rule;
}

Duration DeadlineOf(const Run& run, const CoreContext& core) {
  Duration slowest{};
  for (const auto& [id, member] : core.fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost()) continue;
    slowest = std::max(slowest, PeriodOf(run, member));
  }
  return RoundDeadline(run.spec->sync.deadline, core.options.membership_timeout, GraceOf(run, core.fleet), slowest);
}

Duration PeriodOf(const Run& run, const Member& member) {
  const uint32_t told = member.heartbeat().period_steps;
  const uint32_t steps = told == 0 ? run.inner_steps() : std::min(told, run.inner_steps());
  return TimesAtMostADay(Duration{member.heartbeat().step_ns}, steps);
}

Instant FetchDeadlineOf(const Run& run, const Member& member) {
  const FetchTime time = FetchTimeOf(*run.spec, member.heartbeat().download_bytes_per_second);
  return member.fetch_since() + FetchDeadline(time.allowed, member.fetch_reports());
}

uint64_t NewestStep(const Run& run, const Fleet& fleet) {
  const std::vector<uint64_t> steps = StepsOf(run, fleet);
  return steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
}

uint64_t StepOfHalf(const Run& run, const Fleet& fleet) {
  std::vector<uint64_t> steps = StepsOf(run, fleet);
  if (steps.empty()) return 0;
  const auto half = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), half, steps.end(), std::greater<>());
  return *half;
}

uint32_t Needed(const Run& run) {
  if (run.record.state != JobState::kClosing) return run.LeastWorkers();
  if (run.ending == Ending::kCheckpoint) return 0;
  const bool waiting =
      std::any_of(run.rounds.begin(), run.rounds.end(), [](const Round& r) { return !r.accepted().empty(); });
  return waiting ? run.LeastWorkers() : 1;
}

std::set<WorkerId> UsedUp(const Run& run, const Fleet& fleet) {
  std::set<WorkerId> used_up;
  if (run.record.state != JobState::kRunning || run.pool.Unleased() > 0) return used_up;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (Waits(run, member) && member.wish()) used_up.insert(id);
  }
  if (used_up.empty()) return used_up;
  for (const WorkerId& id : run.pool.Holders({})) used_up.erase(id);
  return used_up;
}

bool DataIsTrained(const Run& run, const Fleet& fleet) {
  if (run.pool.Unleased() > 0) return false;
  bool in_vain = false;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost()) continue;
    if (!Waits(run, member)) return false;
    in_vain = in_vain || member.wish();
  }
  if (!in_vain) return false;
  const uint64_t stop = run.spec->stop.inner_steps;
  const std::set<WorkerId> holders = run.pool.Holders(run.AcceptedCursors());
  return std::all_of(holders.begin(), holders.end(), [&](const WorkerId& id) {
    const Member* member = fleet.Find(id);
    return stop > 0 && member != nullptr && Waits(run, *member) && member->step() >= stop;
  });
}

bool HeldInVain(const Run& run, Duration limit, Instant now) {
  if (run.used_up.empty()) return false;
  const Duration most = !run.HasUploads() ? limit : limit * 2;
  return std::all_of(run.rounds.begin(), run.rounds.end(),
                     [&](const Round& round) { return !round.closing() && round.opened() + most <= now; });
}

}  // namespace atl
