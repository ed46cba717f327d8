// SPDX-License-Identifier: Apache-2.0
// Rounds: opening, closing, committing.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/job_facts.h"
#include "coordinator/core/lateness.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

// After this number of round deadlines without a merge, while some workers have nothing left to train, the
// job ends without the samples that other workers hold.
constexpr int64_t kDeadlinesOfHolders = 2;
// For this number of round deadlines, an upload in progress or an unmeasured step time excuses a missing worker.
constexpr int64_t kDeadlinesOfUploads = 4;

void CountMiss(Run& run, FragmentIndex fragment, const WorkerId& worker, std::vector<JobNote>* notes) {
  const bool was = run.PassesOver(fragment, worker);
  const uint32_t missed = run.misses.Missed(fragment, worker);
  if (was || !run.PassesOver(fragment, worker)) return;
  notes->push_back(
      {run.id(),
       "worker passed over",
       absl::StrCat("worker ", worker.value, " has missed ", missed, " rounds or deadlines of fragment ",
                    fragment.value,
                    " running: none waits for it until it contributes again, unless the others do not suffice"),
       {{"worker", worker.value}, {"fragment", absl::StrCat(fragment.value)}}});
}

// Whether all missing workers only evaluate or fetch, and their heartbeats arrive: then a late round is no fault.
bool WaitsAsItShould(const Run& run, const CoreContext& core, const Round& round) {
  bool any = false;
  for (const auto& [id, member] : core.fleet.Of(run.id())) {
    const bool there = member.Trains(run.id()) && !member.lost() && !member.draining() && !member.finished();
    if (!there || round.HasArrived(id)) continue;
    const bool evaluates = run.evaluation.IsWith(id);
    const bool busy = evaluates || member.stage() == Stage::kFetching;  // both have their own deadlines
    if (busy && SilenceOf(member, core.options.heartbeat_interval, core.now).empty()) {
      any = true;
    } else if (busy || round.expected().contains(id)) {
      return false;
    }
  }
  return any;
}

// A deadline has passed without the quorum: counts a missed round for each worker that has no reason to be missing.
// Workers that have missed too many are no longer expected if the others suffice.
void CountMissing(Run& run, CoreContext& core, FragmentIndex fragment) {
  Round& round = run.rounds[fragment.value];
  if (round.Arrived() == 0) return;  // all may be missing for the same cause
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    const Round& other = run.rounds[p];
    const RoundRule rule = RuleOf(run, core.fleet, FragmentIndex{p});
    const size_t most = other.Arrived() + other.Missing().size() + rule.on_their_way;
    if (!other.closing() && most < other.Quorum(rule)) return;  // it lacks a joiner, for which all may wait
  }
  std::vector<WorkerId> missing = round.Missing(), silent;
  for (WorkerId& id : OnTheirWay(run, core.fleet, round)) missing.push_back(std::move(id));
  const bool early = round.opened() + DeadlineOf(run, core) * kDeadlinesOfUploads > core.now;
  size_t others = round.Arrived();
  for (const WorkerId& id : missing) {
    const Member& member = *core.fleet.Find(id);
    const bool busy = run.evaluation.IsWith(id) || member.stage() != Stage::kTraining;  // both have their own deadlines
    const bool excused = busy || (early && (run.IsUploading(id) || member.heartbeat().step_ns == 0));
    if (!excused) CountMiss(run, fragment, id, &core.out.notes);
    if (!excused && run.PassesOver(fragment, id)) {
      silent.push_back(id);
    } else {
      ++others;
    }
  }
  if (others < run.LeastExpected()) return;  // the others do not suffice
  for (const WorkerId& id : silent) round.StopExpecting(id);
}

void IssueClose(Run& run, CoreContext& core, FragmentIndex fragment, const std::string& why) {
  Round& round = run.rounds[fragment.value];
  CloseRound task;
  task.job = run.id();
  task.epoch = run.record.epoch;
  task.target = {fragment, round.version()};
  task.spec_revision = run.record.spec_revision;
  uint64_t newest = NewestStep(run, core.fleet);
  for (const auto& [worker, arrival] : round.accepted()) {
    task.contributions.push_back(arrival.header);
    newest = std::max(newest, arrival.header.send_step);  // heartbeats are older
  }
  for (const auto& [worker, drop] : round.dropped()) newest = std::max(newest, drop.send_step);
  task.clock_step = run.ClockStep(newest);
  if (fragment.value == 0) task.clock_step = std::max(task.clock_step, run.StepOf(Version{round.version().value + 1}));
  task.past_finished = round.past_finished();
  for (const UploadId id : round.Close()) {
    core.Verdict(id, UploadDecision::kRefused,
                 LateError(absl::StrCat("version ", round.version().value + 1, " is being made")));
  }
  core.out.tasks.push_back(std::move(task));
  core.Note(run.id(), "round closing",
            absl::StrCat("round ", round.version().value, " of fragment ", fragment.value, " closes: ", why),
            {{"fragment", absl::StrCat(fragment.value)}, {"version", absl::StrCat(round.version().value)}});
}

void Publish(Run& run, CoreContext& core, const RoundRecord& record) {
  UpdatePublished update;
  update.job = run.id();
  update.reached = record.reached;
  update.hash = record.hash;
  update.encoded_bytes = record.update_bytes;
  update.clock_step = record.clock_step;
  for (const CommittedContribution& c : record.contributions) {
    update.contributors.push_back(c.header.worker);
    update.digests.push_back(c.header.digest);
  }
  core.SendToJob(run.id(), update);
  run.published[record.reached.fragment.value] = std::move(update);
  core.out.notes.push_back(RoundCommittedNote(record));
}

void NoteWhoTookPart(Run& run, CoreContext& core, FragmentIndex fragment) {
  const Round& round = run.rounds[fragment.value];
  for (const auto& [id, arrival] : round.accepted()) run.misses.TookPart(fragment, id);
  for (const auto& [id, drop] : round.dropped()) run.misses.TookPart(fragment, id);
  for (const WorkerId& id : round.Missing()) CountMiss(run, fragment, id, &core.out.notes);
}

// After a commit: reports starved fragments. `enough`: the round of `fragment` had at least LeastWorkers().
void NoteStarved(Run& run, CoreContext& core, FragmentIndex fragment, bool enough) {
  VersionVector versions = run.Versions();
  const uint64_t front = FrontOf(versions);
  --versions[fragment.value].value;
  const uint64_t before = FrontOf(versions);
  // A starved fragment stays starved until one of its rounds has had as many workers as the job needs.
  if (enough || !run.IsStarved(fragment, before)) run.progress.Committed(fragment, front);
  for (uint32_t p = 0; p < versions.size(); ++p) {
    const FragmentIndex other{p};
    if (!run.IsStarved(other, front)) continue;
    // A starved fragment's round stops expecting the workers that had a contribution to `fragment` merged just now:
    // waiting for them could leave it without a majority forever.
    Round& lacking = run.rounds[p];
    for (const WorkerId& id : lacking.closing() ? std::vector<WorkerId>{} : lacking.Missing()) {
      if (lacking.IsUploading(id) || !run.rounds[fragment.value].IsMerged(id) ||
          lacking.expected().size() <= run.LeastExpected())
        continue;
      while (!run.PassesOver(other, id)) run.misses.Missed(other, id);
      lacking.StopExpecting(id);
      core.Note(run.id(), "worker passed over",
                absl::StrCat("worker ", id.value, " contributes to others and not to fragment ", p,
                             ", which is starved: none of its rounds waits for it until it contributes again"),
                {{"worker", id.value}, {"fragment", absl::StrCat(p)}});
    }
    if (run.IsStarved(other, before)) continue;
    core.Note(run.id(), "fragment starved", StarvedLine(run, core.fleet), {{"fragment", absl::StrCat(p)}});
  }
}

}  // namespace

void Job::OpenRound(FragmentIndex fragment) {
  std::set<WorkerId> expected, passed_over;
  bool past_finished = false;
  for (const auto& [id, member] : core_.fleet.Of(run_.id())) {
    const bool trains = member.Trains(run_.id()) && !member.lost() && member.stage() == Stage::kTraining;
    // Scoring tasks takes long: no round waits for the worker that does it.
    const bool scores = run_.evaluation.scores_tasks() && run_.evaluation.IsWith(id);
    const bool waited_for = !member.draining() && !scores && !member.not_waited_for() && !run_.used_up.contains(id);
    if (trains && waited_for) (run_.PassesOver(fragment, id) ? passed_over : expected).insert(id);
    past_finished = past_finished || (trains && run_.used_up.contains(id));
  }
  if (expected.size() < run_.LeastExpected()) expected.merge(passed_over);  // the others do not suffice
  run_.rounds[fragment.value].Open(std::move(expected), past_finished, core_.now, core_.now + DeadlineOf(run_, core_));
}

void Job::OpenRounds() {
  for (uint32_t p = 0; p < run_.rounds.size(); ++p) {
    if (!run_.rounds[p].closing()) OpenRound(FragmentIndex{p});
  }
}

void Job::AdvanceRounds() {
  const bool pausing = run_.record.state == JobState::kPaused;
  if (!run_.loaded || (!pausing && !run_.Gathers())) return;
  if (run_.SavesAfterMerge()) return;
  if (run_.checkpoints.TakeDue()) WriteCheckpointNow(run_.clock_floor);
  if (pausing) return;  // an incomplete round waits for its missing workers
  for (uint32_t p = 0; p < run_.rounds.size(); ++p) {
    const FragmentIndex fragment{p};
    const RoundRule rule = RuleOf(run_, core_.fleet, fragment);
    const RoundVerdict verdict = run_.rounds[p].Decide(rule, core_.now);
    if (verdict.close) IssueClose(run_, core_, fragment, ReasonOf(run_.rounds[p], rule, verdict, core_.now));
    if (verdict.overdue) ReportOverdue(fragment, rule, verdict);
  }
}

void Job::CloseWhatHasItsQuorum() {
  if (!run_.loaded || !run_.Gathers() || run_.SavesAfterMerge()) return;
  for (uint32_t p = 0; p < run_.rounds.size(); ++p) {
    const Round& round = run_.rounds[p];
    const bool enough =
        !round.accepted().empty() && round.Arrived() >= round.Quorum(RuleOf(run_, core_.fleet, FragmentIndex{p}));
    if (enough && !round.closing() && round.Flushing() == 0)
      IssueClose(run_, core_, FragmentIndex{p}, "the job is paused, and it has its quorum");
  }
}

void Job::ReportOverdue(FragmentIndex fragment, const RoundRule& rule, const RoundVerdict& verdict) {
  Round& round = run_.rounds[fragment.value];
  const Duration extension = DeadlineOf(run_, core_);
  // When the round opened, the pace of a new worker was unknown; once it is known, the deadline follows it.
  if (round.opened() + extension > core_.now) return round.Extend(round.opened() + extension);
  round.Extend(core_.now + extension);
  if (core_.disk_low) return;  // no worker can contribute, so none is at fault
  const std::string name = absl::StrCat("round ", round.version().value, " of fragment ", fragment.value);
  const bool as_it_should = WaitsAsItShould(run_, core_, round);
  if (!as_it_should || !round.wait_reported()) {
    const std::string late = absl::StrCat(name, ": ", ReasonOf(round, rule, verdict, core_.now),
                                          verdict.nobody ? WhoMayCome(run_, core_.fleet, fragment, core_.now) : "",
                                          "; next report in ", SecondsOf(extension));
    core_.Note(run_.id(), as_it_should ? "round waits" : "round overdue",
               as_it_should ? absl::StrCat(name, " waits", WhoMayCome(run_, core_.fleet, fragment, core_.now)) : late,
               {{"fragment", absl::StrCat(fragment.value)}, {"version", absl::StrCat(round.version().value)}});
  }
  if (as_it_should) round.ReportWait();
  const uint64_t stop = run_.spec->stop.inner_steps;
  if (run_.record.state == JobState::kRunning && stop > 0 && StepOfHalf(run_, core_.fleet) >= stop) {
    // A worker at the stop step sends nothing until the end begins, so this round would wait forever.
    BeginClosing(stop, absl::StrCat("step ", stop, " is reached and a round is overdue"));
    return;
  }
  if (run_.record.state == JobState::kRunning && !as_it_should &&
      HeldInVain(run_, extension * kDeadlinesOfHolders, core_.now)) {
    BeginClosing(0, absl::StrCat("the dataset is used up, but for what is held and not trained",
                                 HoldersLine(run_, core_.fleet, core_.options.heartbeat_interval, core_.now)));
    return;
  }
  if (run_.record.state == JobState::kRunning && !as_it_should) CountMissing(run_, core_, fragment);
  if (run_.record.state != JobState::kClosing) return;
  for (const WorkerId& id : round.Missing()) {
    const bool sending = round.opened() + extension * kDeadlinesOfUploads > core_.now && run_.IsUploading(id);
    const bool evaluates = run_.evaluation.IsWith(id);  // the evaluation has its own deadline
    if (sending || evaluates) continue;
    // The end of a job waits one deadline for each worker, not forever.
    Member& member = *core_.fleet.Find(id);
    member.Finish(true);
    core_.Note(run_.id(), "left out", absl::StrCat("the end of the job no longer waits for worker ", id.value),
               {{"worker", id.value}});
  }
}

void Job::AllowAfresh(const WorkerId& only_for) {
  for (Round& round : run_.rounds) {
    std::vector<WorkerId> others = round.Missing();
    std::erase(others, only_for);
    const bool arrived = round.HasArrived(only_for);
    if (round.closing() || (!only_for.value.empty() && (arrived || !others.empty()))) continue;
    round.Begin(core_.now, core_.now + DeadlineOf(run_, core_));
  }
}

void Job::On(const RoundAggregated& e) {
  if (HasEnded(run_.record.state) || e.epoch != run_.record.epoch) return;
  if (e.reached.fragment.value >= run_.rounds.size()) return;
  Round& round = run_.rounds[e.reached.fragment.value];
  if (!round.closing()) return;
  ATOLL_CHECK(e.reached.version.value == round.version().value + 1, "I6: versions grow by exactly one");
  RoundRecord record = e.record;
  ATOLL_CHECK(record.contributions.size() == round.accepted().size() && round.Arrived() > 0,
              "I8: a round commits exactly what was accepted");
  record.job = run_.id();
  record.epoch = e.epoch;
  record.reached = e.reached;
  record.boot = core_.boot;
  record.tokens = 0;
  for (const auto& [worker, drop] : round.dropped()) record.dropped.push_back(worker);
  if (e.reached.fragment.value == 0) record.clock_step = std::max(record.clock_step, run_.StepOf(e.reached.version));
  record.clock_step = std::max(record.clock_step, run_.clock_floor);
  const bool first = e.reached.fragment.value == 0;
  if (first) run_.participants.clear();
  for (CommittedContribution& c : record.contributions) {
    const auto it = round.accepted().find(c.header.worker);
    ATOLL_CHECK(it != round.accepted().end() && it->second.header.digest == c.header.digest,
                "I1: only accepted contributions are committed");
    c.header = it->second.header;
    record.tokens += c.header.tokens;
    const uint64_t consumed = run_.pool.record().consumed;
    for (const LeaseCursor& cursor : c.header.cursors) run_.pool.Consume(cursor.lease, cursor.cursor);
    run_.claims.Commit(c.header, run_.pool.record().consumed - consumed);
    if (first) run_.participants.insert(c.header.worker);
  }
  const bool enough = round.Arrived() >= run_.LeastWorkers();
  run_.spreads.push_back(round.Spread());
  if (run_.spreads.size() > Run::kSpreads) run_.spreads.erase(run_.spreads.begin());
  NoteWhoTookPart(run_, core_, e.reached.fragment);
  round.Commit(e.reached.version, record.hash);
  round.ForgetOlder([this](const WorkerId& worker) { return core_.fleet.Find(worker) != nullptr; });
  NoteStarved(run_, core_, e.reached.fragment, enough);
  run_.clock_floor = record.clock_step;
  ++run_.rounds_committed;
  if (e.reached.fragment.value == 0) run_.tokens_committed += record.tokens;
  core_.out.records.push_back(record);
  Publish(run_, core_, record);
  AfterCommit(e.reached.fragment);
  HearRemarks(e.reached.fragment, e.remarks, record);
}

void Job::AfterCommit(FragmentIndex fragment) {
  SettleRevoked();
  OpenRound(fragment);
  if (fragment.value != 0) return;
  CheckStop();
  if (run_.record.state == JobState::kClosing) return;  // the end has its own evaluation and checkpoint
  const Version version = run_.rounds[0].version();
  if (EvaluationIsDue(run_.spec->evaluation, version)) StartEvaluation();
  run_.checkpoints.Commit(run_.spec->checkpoint, version);
}

void Job::SettleRevoked() {
  for (const LeaseId id : run_.pool.Revoked()) run_.pool.Return(id, run_.AcceptedCursor(id));
  for (const auto& [worker, member] : core_.fleet.members()) {
    if (member.record().job == run_.id()) continue;
    for (const LeaseId id : run_.pool.HeldBy(worker)) run_.pool.Return(id, run_.AcceptedCursor(id));
  }
}

}  // namespace atl
