// SPDX-License-Identifier: Apache-2.0
// The views for people, and the invariants.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "coordinator/core/machine.h"
#include "coordinator/core/starved.h"
#include "coordinator/core/used_up.h"

namespace atl {
namespace {

// The worker's activity from its newest heartbeat; if that is for another job, from later messages.
Heartbeat NewestOf(const Member& member, bool silent) {
  Heartbeat last = member.heartbeat;
  if (!member.connection || silent) last.waiting_for.clear();
  if (last.job == member.record.job) return last;
  Heartbeat now;
  now.sequence = last.sequence;
  now.metrics = std::move(last.metrics);
  now.job = member.record.job;
  now.activity = member.stage == Stage::kTraining   ? WorkerActivity::kTraining
                 : member.stage == Stage::kFetching ? WorkerActivity::kFetching
                                                    : WorkerActivity::kIdle;
  now.step = member.step;
  return now;
}

std::string HeldAgainst(const Member& member, const Run* run) {
  if (!member.record.quarantine.empty()) return member.record.quarantine;
  if (run == nullptr) return "";
  const ScreensSpec& screens = run->spec->screens;
  return run->strikes.LineOf(member.record.worker, screens.norm == ScreenMode::kEnforce ? screens.strikes : 0);
}

// "; 2 are idle; 1 at work for other; start 2 more workers", the last if `lacking` exceeds the idle ones.
std::string OthersLine(const Fleet& fleet, const Run& run, uint32_t lacking) {
  uint32_t idle = 0, busy = 0;
  std::set<std::string> jobs;
  for (const auto& [id, member] : fleet.members()) {
    if (!member.connection || member.lost || member.draining || member.record.evaluate_only) continue;
    if (member.record.cordoned && !member.Assigned()) continue;
    if (member.barred.contains(run.id()) || member.record.job == run.id()) continue;
    if (member.record.job.value.empty()) {
      ++idle;
    } else {
      ++busy;
      jobs.insert(member.record.job.value);
    }
  }
  std::string line;
  if (idle > 0) absl::StrAppend(&line, "; ", idle, idle == 1 ? " is idle" : " are idle");
  if (busy > 0) absl::StrAppend(&line, "; ", busy, " at work for ", absl::StrJoin(jobs, ", "));
  if (idle < lacking)
    absl::StrAppend(&line, "; start ", lacking - idle, idle + busy > 0 ? " more" : "",
                    lacking - idle == 1 ? " worker" : " workers");
  return line;
}

std::string FailuresLine(const Run& run) {
  constexpr size_t kShown = 3;
  std::string line;
  size_t shown = 0;
  for (const auto& [worker, failure] : run.failures) {
    if (shown++ == kShown) break;
    absl::StrAppend(&line, line.empty() ? "" : "; ", "worker ", worker.value, " takes no part: ", failure.why);
  }
  if (run.failures.size() > kShown) absl::StrAppend(&line, "; and ", run.failures.size() - kShown, " more");
  return absl::StrCat(line, "; mend that, then 'atoll job resume ", run.id().value, "'");
}

// Empty: no worker was refused for that reason.
std::string OlderStateThan(const Fleet::Ahead& ahead, BootNumber boot) {
  if (ahead.boot.value == 0) return "";
  return absl::StrCat("worker ", ahead.worker.value, " has followed boot ", ahead.boot.value,
                      " of a newer state than this one, at ", boot.value,
                      ": start the coordinator on that, or the workers again, which then follow this one");
}

// For the whole fleet.
std::string KeptOutLine(const Fleet& fleet) {
  std::vector<WorkerId> quarantined, cordoned;
  for (const auto& [id, member] : fleet.members()) {
    if (!member.record.quarantine.empty()) {
      quarantined.push_back(id);
    } else if (member.record.cordoned && !member.lost && !member.Assigned()) {
      cordoned.push_back(id);
    }
  }
  if (quarantined.empty() && cordoned.empty()) return "";
  return absl::StrCat(quarantined.empty() ? "" : absl::StrCat(ListOf(quarantined), " quarantined"),
                      quarantined.empty() || cordoned.empty() ? "" : ", ",
                      cordoned.empty() ? "" : absl::StrCat(ListOf(cordoned), " cordoned"), " ('atoll worker readmit')");
}

}  // namespace

std::vector<JobId> Machine::Jobs() const {
  std::vector<std::pair<uint64_t, JobId>> order;
  for (const auto& [id, run] : runs_) order.emplace_back(run.record.sequence, id);
  std::sort(order.begin(), order.end());
  std::vector<JobId> jobs;
  jobs.reserve(order.size());
  for (auto& [sequence, id] : order) jobs.push_back(std::move(id));
  return jobs;
}

std::optional<JobView> Machine::ViewJob(const JobId& job, Instant now) const {
  const Run* run = Find(job);
  if (run == nullptr) return std::nullopt;
  JobView view;
  view.record = run->record;
  for (const Round& round : run->rounds) {
    const auto missing = static_cast<uint32_t>(MissingOf(round).size());
    const auto accepted = static_cast<uint32_t>(round.accepted.size());
    const auto dropped = static_cast<uint32_t>(round.dropped.size());
    view.fragments.push_back({round.version, round.hash, accepted, accepted + missing, dropped});
  }
  view.balance = run->pool.Balance();
  view.clock_step = ClockOf(*run);
  view.evaluations = run->evaluations;
  view.tokens_committed = run->tokens_committed;
  view.rounds_committed = run->rounds_committed;
  for (const auto& [id, member] : fleet_.Of(job)) {
    // A member not heard since the start is waited for, but is not known to be alive.
    if (!member.Trains(job) || member.lost || !member.has_spoken) continue;
    ++view.alive;
    view.training += member.stage == Stage::kTraining ? 1 : 0;
    view.not_waited_for += member.not_waited_for ? 1 : 0;
  }
  const auto have = static_cast<uint32_t>(Workers(*run).size());
  if (run->Open() && run->loaded) view.missing = Needed(*run) - std::min(have, Needed(*run));
  view.pool = run->spec->experiment.pool == PoolSchedule::kConstant ? 0 : PoolOf(*run);
  if (!HasEnded(view.record.state)) view.participating = static_cast<uint32_t>(run->participants.size());
  for (const auto& [step, checkpoint] : run->checkpoints) view.checkpoints.push_back(checkpoint);
  view.stopped = run->record.state == JobState::kPaused && absl::StartsWith(run->record.reason, kStopped);
  view.no_room = !run->no_room.empty();
  view.waiting_line = WaitingLine(*run, now);
  return view;
}

std::vector<WorkerView> Machine::ViewWorkers(Instant now, const JobId* of) const {
  std::vector<WorkerView> views;
  const auto add = [this, &views, now](const WorkerId& id, const Member& member) {
    WorkerView view;
    view.worker = id;
    const bool quarantined = !member.record.quarantine.empty();
    view.evicted = member.record.quarantine == Member::kEvicted;
    view.silence = quarantined ? "" : SilenceOf(member, options_.heartbeat_interval, now);
    view.state = quarantined                        ? WorkerState::kQuarantined
                 : member.lost && member.left       ? WorkerState::kLeft
                 : member.lost                      ? WorkerState::kLost
                 : !view.silence.empty()            ? WorkerState::kSilent
                 : member.draining                  ? WorkerState::kDraining
                 : member.stage == Stage::kTraining ? WorkerState::kTraining
                 : member.stage == Stage::kFetching ? WorkerState::kJoining
                                                    : WorkerState::kIdle;
    view.incarnation = member.record.incarnation;
    view.job = member.record.job;
    view.last = NewestOf(member, !view.silence.empty());
    view.device = member.record.device;
    view.connected = member.connection.has_value();
    view.unheard = !member.has_spoken;
    view.evaluate_only = member.record.evaluate_only;
    if (!member.Assigned() && view.silence.empty()) view.last.waiting_for = WhyIdle(member);
    view.cordoned = member.record.cordoned;
    if (view.cordoned && !member.Assigned() && view.silence.empty()) {
      view.last.waiting_for = absl::StrCat("an operator: worker ", id.value, " is cordoned");
    }
    if (quarantined) view.last.waiting_for = absl::StrCat("an operator: ", QuarantineLine(member.record));
    const Run* run = Find(member.record.job);
    view.participating = run != nullptr && run->participants.contains(id);
    const std::optional<uint32_t> corpus = run == nullptr ? std::nullopt : run->shards.Of(id);
    if (corpus) view.corpus = run->spec->data.corpora[*corpus].name;
    view.heartbeat_age = now - member.heard;
    view.link_too_slow = member.link_too_slow;
    view.not_waited_for = member.not_waited_for;
    view.screened = HeldAgainst(member, run);
    views.push_back(std::move(view));
  };
  if (of != nullptr) {
    for (const auto& [id, member] : fleet_.Of(*of)) add(id, member);
  } else {
    for (const auto& [id, member] : fleet_.members()) add(id, member);
  }
  return views;
}

std::string Machine::FailureOf(const WorkerId& worker) const {
  for (const auto& [id, run] : runs_) {
    if (HasEnded(run.record.state)) continue;
    const auto failure = run.failures.find(worker);
    if (failure != run.failures.end())
      return absl::StrCat("job ", id.value, ", which it gave up: ", failure->second.why);
  }
  return "";
}

std::string Machine::WhoMayCome(const Run& run, FragmentIndex fragment) const {
  const Round& round = run.rounds[fragment.value];
  std::string line;
  for (const auto& [id, member] : fleet_.Of(run.id())) {
    const bool there = member.Trains(run.id()) && !member.lost && !member.draining && !member.finished;
    if (!there || round.accepted.contains(id) || round.dropped.contains(id)) continue;
    const bool evaluates = run.evaluation && run.evaluation->holder == id;
    const uint32_t missed = run.misses.Running(fragment, id);
    const bool passed_over = run.PassesOver(fragment, id);
    absl::StrAppend(&line, line.empty() ? "; " : ", ", id.value,
                    run.IsUploading(id, fragment)      ? " is sending its contribution"
                    : evaluates                        ? " makes an evaluation first"
                    : passed_over                      ? absl::StrCat(" has missed ", missed, " rounds running")
                    : member.stage == Stage::kTraining ? " takes part from its next send step"
                                                       : " is fetching the job",
                    member.stage == Stage::kFetching && member.fetch_reports > 0
                        ? absl::StrCat(" for ", SecondsOf(now_ - member.fetch_since))
                        : "");
  }
  return line.empty() ? "; nobody else is expected in it" : line;
}

std::string Machine::WaitingForRound(const Run& run, Instant now) const {
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    if (!run.rounds[p].closing && ArrivedOf(run.rounds[p]) > 0) return WaitingFor(run, FragmentIndex{p}, now);
  }
  // A round without contributions is normal, unless no worker is at it, or the end waits, or it is overdue.
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    const Round& round = run.rounds[p];
    if (round.closing || (round.expected.empty() && run.record.state == JobState::kClosing)) continue;
    const bool late = round.opened + DeadlineOf(run) <= now_;
    if (late || run.record.state == JobState::kClosing || Training(run) == 0)
      return WaitingFor(run, FragmentIndex{p}, now);
  }
  return "";
}

std::string Machine::WaitingFor(const Run& run, FragmentIndex fragment, Instant now) const {
  const Round& round = run.rounds[fragment.value];
  const RoundRule rule = RuleOf(run, fragment);
  const RoundVerdict verdict = DecideRound(round, rule, now_);
  std::string who;
  for (const WorkerId& id : MissingOf(round)) {
    const Member& member = *fleet_.Find(id);
    const std::string silence = SilenceOf(member, options_.heartbeat_interval, now);
    const bool waits = silence.empty() && !member.heartbeat.waiting_for.empty();
    absl::StrAppend(&who, who.empty() ? " (" : ", ", id.value, " at step ", member.step, silence.empty() ? "" : ", ",
                    silence, waits ? ", waits for " : "", waits ? member.heartbeat.waiting_for : "");
  }
  if (!who.empty()) who += ")";
  return absl::StrCat("round ", round.version.value, " of fragment ", fragment.value, ": ", ReasonOf(round, rule, now_),
                      verdict.nobody ? WhoMayCome(run, fragment) : who,
                      verdict.wake != round.deadline || verdict.wake <= now_
                          ? ""
                          : absl::StrCat("; next report in ", SecondsOf(verdict.wake - now_)));
}

std::string Machine::WaitingLine(const Run& run, Instant now) const {
  const size_t have = Workers(run).size();
  const uint32_t need = Needed(run);
  if (!run.no_room.empty()) return disk_low_ ? absl::StrCat(kDiskLow, "; ", RoomLine(run)) : RoomLine(run);
  switch (run.record.state) {
    case JobState::kPending: return "the parameters of version 0 are being made";
    case JobState::kPaused: return run.record.reason;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled: return "";
    case JobState::kWaitingForWorkers:
    case JobState::kRunning:
    case JobState::kClosing: break;
  }
  if (!run.loaded) return "the parameters are being loaded";
  if (disk_low_) return kDiskLow;
  if (run.record.state == JobState::kClosing && run.ending == Ending::kCheckpoint)
    return "the final checkpoint is being written";
  if (have < need) {
    std::vector<WorkerId> lost;
    for (const auto& [id, member] : fleet_.Of(run.id())) {
      if (member.Trains(run.id()) && member.lost) lost.push_back(id);
    }
    std::string why = lost.empty() ? "" : absl::StrCat(ListOf(lost), " lost");
    if (!run.failures.empty()) absl::StrAppend(&why, why.empty() ? "" : "; ", FailuresLine(run));
    const bool ahead = now - fleet_.ahead().at <= options_.membership_timeout;
    for (const std::string& out : {KeptOutLine(fleet_), ahead ? OlderStateThan(fleet_.ahead(), boot_) : ""}) {
      if (!out.empty()) absl::StrAppend(&why, why.empty() ? "" : "; ", out);
    }
    return absl::StrCat(have, " of ", need, " workers needed", why.empty() ? "" : ": ", why,
                        OthersLine(fleet_, run, why.empty() ? static_cast<uint32_t>(need - have) : 0));
  }
  if (run.ending == Ending::kEvaluation && run.evaluation) {
    return absl::StrCat("the final evaluation is made by ",
                        run.evaluation->holder.value.empty() ? "nobody yet" : run.evaluation->holder.value);
  }
  std::string round = WaitingForRound(run, now);
  if (run.pool.Unleased() == 0 && run.record.state == JobState::kRunning) {
    round = absl::StrCat("all samples of the dataset are leased or used",
                         HoldersLine(run, fleet_, options_.heartbeat_interval, now), round.empty() ? "" : "; ", round);
  }
  if (const std::string starved = StarvedLine(run, fleet_); !starved.empty())
    round = absl::StrCat(starved, round.empty() ? "" : "; ", round);
  const std::string link = LinkLine(run);
  if (!link.empty()) round = absl::StrCat(link, round.empty() ? "" : "; ", round);
  if (run.failures.empty()) return round;
  return absl::StrCat(FailuresLine(run), round.empty() ? "" : "; ", round);
}

void Machine::CheckInvariants() const {
  fleet_.CheckInvariants();
  std::set<Incarnation> incarnations;
  for (const auto& [id, member] : fleet_.members()) {
    const Incarnation incarnation = member.record.incarnation;
    ATOLL_CHECK(incarnation.value != 0 && incarnation.value < counters_.next_incarnation,
                "I10: an incarnation nobody gave");
    ATOLL_CHECK(incarnations.insert(incarnation).second, "I10: two workers share an incarnation");
    ATOLL_CHECK(member.record.quarantine.empty() || (!member.connection && !member.Assigned()),
                "I16: a quarantined worker is connected or has a job");
    ATOLL_CHECK(!member.Assigned() || Find(member.record.job) != nullptr, "a worker trains a job that is not there");
  }
  for (const auto& [id, run] : runs_) {
    run.pool.CheckInvariants();
    for (uint32_t p = 0; p < run.rounds.size(); ++p) {
      const Round& round = run.rounds[p];
      ATOLL_CHECK(!round.closing || ArrivedOf(round) > 0, "I8: an empty round is being closed");
      // A worker lost during the closing makes the majority smaller, never larger.
      ATOLL_CHECK(!round.closing || run.spec->sync.quorum != 0 || ArrivedOf(round) > MissingOf(round).size(),
                  "I8: a round is being closed without a majority");
      for (const auto& [worker, arrival] : round.accepted) {
        ATOLL_CHECK(arrival.header.target == (FragmentVersion{FragmentIndex{p}, round.version}),
                    "I1: an accepted contribution belongs to another round");
      }
      for (const auto& [worker, header] : run.committed[p]) {
        ATOLL_CHECK(header.target.version < round.version, "I6: a committed contribution is newer than its fragment");
      }
    }
    for (const auto& [worker, member] : fleet_.members()) {
      for (const LeaseId lease : run.pool.HeldBy(worker)) {
        const LeaseRecord& record = *run.pool.Find(lease);
        ATOLL_CHECK(record.incarnation == member.record.incarnation && member.record.job == id,
                    "I9: a lease outlives the incarnation that it was given to");
      }
    }
  }
}

}  // namespace atl
