// SPDX-License-Identifier: Apache-2.0
// Which files of a job stay on the disk without checkpoint.keep_contributions. While the job runs:
// the files that a restart needs and that slightly late workers may request, within the published
// bound. After a rollback: nothing of the discarded epoch. After the end: only checkpoint files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/plan/coordinator_needs.h"
#include "coordinator/engine/intake.h"
#include "tests/sim/harness.h"
#include "tests/sim/share.h"
#include "tests/sim/state_on_disk.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
// One fault per call, in turn.
constexpr DiskFault kFaults[] = {DiskFault::kKilledBefore, DiskFault::kPowerCut, DiskFault::kTornPowerCut};

// Versions in the names of the fragment's files.
std::set<uint64_t> VersionsIn(Harness& h, const std::string& directory, const std::string& ending) {
  const auto names = h.files().List(directory);
  EXPECT_TRUE(names.ok()) << names.status();
  std::set<uint64_t> versions;
  for (const std::string& name : *names) {
    uint64_t version = 0;
    if (name.ends_with(ending) && absl::SimpleAtoi(name.substr(1, name.size() - 1 - ending.size()), &version))
      versions.insert(version);
  }
  return versions;
}

JobSpec Spec(CodecKind codec) {
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kWhole;
  spec.sync.upload_codec = codec;
  spec.sync.download_codec = codec;
  spec.stop.inner_steps = 400;
  spec.checkpoint.every_rounds = 1000;
  return spec;
}

std::set<uint64_t> Segments(Harness& h) {
  const RoundKey key{JobId{kJob}, 0, {FragmentIndex{0}, Version{0}}};
  return VersionsIn(h, DirectoryOf(DataDirectory("/state").SegmentPath(key)), ".seg");
}

std::set<uint64_t> Snapshots(Harness& h) {
  return VersionsIn(h, DataDirectory("/state").SnapshotDirectory(JobId{kJob}, 0, FragmentIndex{0}), ".snap");
}

struct Seen {
  std::set<uint64_t> snapshots;  // versions, over the run
  size_t most_segments = 0;
};

Seen Play(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  EXPECT_TRUE(h.Submit(spec).ok());
  for (const char* worker : {"a", "b", "c"}) h.StartWorker(worker);
  Seen seen;
  uint64_t looked_at = 0;
  EXPECT_TRUE(h.RunUntil([&] {
    const auto view = h.View(kJob);
    const uint64_t head = view->fragments[0].version.value;
    if (head == looked_at || h.Ended(kJob)) return h.Ended(kJob);
    looked_at = head;
    const std::set<uint64_t> segments = Segments(h), snapshots = Snapshots(h);
    seen.most_segments = std::max(seen.most_segments, segments.size());
    seen.snapshots.insert(snapshots.begin(), snapshots.end());
    EXPECT_LE(snapshots.size(), 2u);
    if (snapshots.empty()) return false;
    // A restart recomputes the rounds since the newest snapshot. A worker that missed two rounds
    // requests their updates.
    const uint64_t needed_from = std::min(*snapshots.rbegin(), head - std::min<uint64_t>(head, 2));
    for (uint64_t version = needed_from; version < head; ++version)
      EXPECT_TRUE(segments.contains(version)) << version << " of " << head;
    return false;
  }));
  return seen;
}

TEST(Retention, LargeRoundsAreFourAtMostAndASnapshotComesWithEveryThird) {
  Harness h;
  const Seen seen = Play(h, Spec(CodecKind::kFp32));
  EXPECT_LE(seen.most_segments, 4u);
  ASSERT_GE(seen.snapshots.size(), 3u);
  const auto end = std::prev(seen.snapshots.end());  // the last snapshot is written at the job's end
  for (auto next = std::next(seen.snapshots.begin()); next != end; ++next) EXPECT_EQ(*next - *std::prev(next), 3u);
}

TEST(Retention, SmallRoundsStayUntilTheyOutweighTheState) {
  Harness h;
  const JobSpec spec = Spec(CodecKind::kMxfp4);
  const Seen seen = Play(h, spec);
  EXPECT_GT(seen.most_segments, 5u);
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  const JobSizes sizes = SizesOf(spec, layout);
  const uint64_t round = 3 * sizes.contribution_bytes + sizes.update_bytes;
  EXPECT_LE(seen.most_segments * round, 12 * sizes.parameters + 2 * round);
}

// File names in a directory of the job.
std::vector<std::string> Below(Harness& h, const std::string& part) {
  std::vector<std::string> found;
  for (const std::string& path : h.files().Paths()) {
    if (path.starts_with(absl::StrCat("/state/jobs/", kJob, "/", part))) found.push_back(path);
  }
  return found;
}

void ExpectWell(Harness& h) {
  const StateOnDisk state(h);
  const audit::Report verify = state.Verify(), replay = state.Replay();
  EXPECT_TRUE(verify.ok()) << verify.Text();
  EXPECT_TRUE(replay.ok()) << replay.Text();
}

JobSpec InTwoFragments(Harness& h) {
  StoreManifest(h);
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.checkpoint.every_rounds = 2;
  return spec;
}

// Two workers, five versions, then a pause.
void PlayToAPause(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 5; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
}

// Rolls back to the oldest checkpoint and runs to the end.
void RollBackAndEnd(Harness& h) {
  ASSERT_TRUE(h.RollBack(kJob, h.View(kJob)->checkpoints.front().step).ok());
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  h.RunFor(Seconds(5));
}

// Sets the fault at that call and ends the process. Returns whether the fault was met; expects a
// valid state.
bool EndsAtCall(Harness& h, uint64_t call, DiskFault fault) {
  h.files().FailAt(call, fault);
  h.RunFor(Seconds(5));
  const bool met = h.files().met();
  if (h.coordinator_runs()) h.KillCoordinator();
  h.files().FailAt(UINT64_MAX, DiskFault::kNone);
  ExpectWell(h);
  return met;
}

// Plays up to the rollback request.
void PlayToTheRollback(Harness& h) {
  ASSERT_NO_FATAL_FAILURE(PlayToAPause(h, InTwoFragments(h)));
  const auto view = h.View(kJob);
  ASSERT_GE(view->fragments.size(), 2u);
  ASSERT_FALSE(view->checkpoints.empty());
  h.AskWithoutWaiting(
      JobRolledBack{.job = JobId{kJob}, .checkpoint_step = view->checkpoints.front().step, .wall_nanos = 1});
}

TEST(Retention, ARollbackLeavesNothingOfTheEpochThatItGivesUp) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(PlayToTheRollback(h));
  h.RunFor(Seconds(5));
  ASSERT_EQ(h.View(kJob)->record.epoch, 1u);
  EXPECT_TRUE(Below(h, "rounds/e0000000000").empty());
  EXPECT_TRUE(Below(h, "snapshots/e0000000000").empty());
  EXPECT_EQ(Below(h, "snapshots/e0000000001").size(), h.View(kJob)->fragments.size());
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  h.KillCoordinator();
  ExpectWell(h);
}

// At every call that changes the disk, from the request on.
TEST(Retention, ARollbackThatIsBrokenOffLeavesNothingAfterTheNextStart) {
  bool met = true;
  for (uint64_t call = 0; met; call += static_cast<uint64_t>(Every(5))) {
    SCOPED_TRACE(call);
    Harness h;
    ASSERT_NO_FATAL_FAILURE(PlayToTheRollback(h));
    met = EndsAtCall(h, call, kFaults[call % std::size(kFaults)]);
    h.StartCoordinator();
    h.RunFor(Seconds(5));
    const auto view = h.View(kJob);
    if (view->record.epoch > 0) {
      EXPECT_TRUE(Below(h, "rounds/e0000000000").empty());
      EXPECT_TRUE(Below(h, "snapshots/e0000000000").empty());
    }
    ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  }
}

TEST(Retention, OfAnEndedJobTheCheckpointStaysWithoutItsLog) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(InTwoFragments(h)).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  h.RunFor(Seconds(5));
  const auto view = h.View(kJob);
  ASSERT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_TRUE(Below(h, "rounds").empty());
  EXPECT_EQ(Below(h, "snapshots").size(), view->fragments.size());  // linked by the checkpoint
  EXPECT_FALSE(Below(h, "checkpoints").empty());
  h.KillCoordinator();
  ExpectWell(h);
}

TEST(Retention, OfAJobWhoseEndWasBrokenOffTheNextStartDropsTheLog) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(InTwoFragments(h)).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));  // its files are not deleted yet in that turn
  h.KillCoordinator();
  ASSERT_FALSE(Below(h, "rounds").empty());
  ExpectWell(h);
  h.StartCoordinator();
  h.RunFor(Seconds(5));
  EXPECT_TRUE(Below(h, "rounds").empty());
  h.KillCoordinator();
  ExpectWell(h);
}

// Nothing starts from a cancelled job, but its committed state is kept: the newest snapshots and
// the rounds since.
TEST(Retention, OfACancelledJobWhatWasCommittedStays) {
  Harness h;
  JobSpec spec = InTwoFragments(h);
  spec.stop.inner_steps = 400;
  spec.checkpoint.every_rounds = 1000;
  spec.sync.upload_codec = spec.sync.download_codec = CodecKind::kMxfp4;  // several rounds between snapshots
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 20; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kCancel).ok());
  h.RunFor(Seconds(5));
  const std::set<uint64_t> snapshots = Snapshots(h), segments = Segments(h);
  ASSERT_EQ(snapshots.size(), 1u);
  ASSERT_FALSE(segments.empty());
  EXPECT_EQ(*segments.begin(), *snapshots.begin());
  h.KillCoordinator();
  ExpectWell(h);
}

// Steps of checkpoints that are on disk but not in the ledger.
std::set<std::string> Forgotten(Harness& h) {
  std::set<std::string> steps;
  for (const std::string& path : Below(h, "checkpoints/")) {
    if (path.ends_with("/manifest")) steps.insert(DirectoryOf(path).substr(DirectoryOf(path).size() - 10));
  }
  const JobView view = *h.View(kJob);
  for (const CheckpointRecord& checkpoint : view.checkpoints) steps.erase(absl::StrFormat("%010d", checkpoint.step));
  return steps;
}

TEST(Retention, ACheckpointWhoseRemovalWasBrokenOffGoesWithTheNextStart) {
  Harness h;
  JobSpec spec = InTwoFragments(h);
  spec.checkpoint = {.every_rounds = 1, .keep_last = 1, .keep_every = 0, .keep_contributions = false};
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  ASSERT_TRUE(h.RunUntil([&] { return !Forgotten(h).empty(); }));  // decided, not yet deleted
  const std::string step = *Forgotten(h).begin();
  h.KillCoordinator();
  {
    const StateOnDisk state(h);
    const audit::Report verify = state.Verify();
    EXPECT_TRUE(verify.ok()) << verify.Text();
    EXPECT_THAT(verify.Text(), testing::HasSubstr("a checkpoint that the ledger does not have"));
  }
  h.StartCoordinator();
  h.RunFor(Seconds(1));
  EXPECT_TRUE(Below(h, "checkpoints/" + step).empty());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  h.RunFor(Seconds(5));
  EXPECT_TRUE(Forgotten(h).empty());
  EXPECT_FALSE(Below(h, "checkpoints/").empty());
}

// Also for an ended job, and for a half-deleted checkpoint.
TEST(Retention, WhatIsLeftOfADroppedCheckpointGoesFromAnEndedJob) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(InTwoFragments(h)).ok());
  h.StartWorker("a");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  h.RunFor(Seconds(5));
  const std::vector<std::string> whole = Below(h, "checkpoints/");
  h.KillCoordinator();  // may undo a deletion that was not flushed
  const DataDirectory directory("/state");
  const std::string left = directory.CheckpointFragmentPath(JobId{kJob}, 7, FragmentIndex{0});
  ASSERT_TRUE(h.files().HardLink(Below(h, "snapshots/").front(), left).ok());
  h.StartCoordinator();
  h.RunFor(Seconds(1));
  EXPECT_EQ(Below(h, "checkpoints/"), whole);
}

TEST(Retention, KeptContributionsOutlastARollbackAndTheEnd) {
  Harness h;
  JobSpec spec = InTwoFragments(h);
  spec.checkpoint.keep_contributions = true;
  ASSERT_NO_FATAL_FAILURE(PlayToAPause(h, spec));
  ASSERT_NO_FATAL_FAILURE(RollBackAndEnd(h));
  EXPECT_GE(Below(h, "rounds/e0000000000").size(), 10u);
  EXPECT_FALSE(Below(h, "snapshots/e0000000000").empty());
  EXPECT_FALSE(Below(h, "rounds/e0000000001").empty());
  h.KillCoordinator();
  ExpectWell(h);
}

// An ended job with kept contributions, checkpoints and a discarded epoch.
void PlayToAnEndThatKeepsMuch(Harness& h) {
  JobSpec spec = InTwoFragments(h);
  spec.checkpoint.keep_contributions = true;
  spec.checkpoint.keep_every = 1;
  ASSERT_NO_FATAL_FAILURE(PlayToAPause(h, spec));
  ASSERT_NO_FATAL_FAILURE(RollBackAndEnd(h));
  ASSERT_GE(h.View(kJob)->checkpoints.size(), 2u);
}

void ExpectPurged(Harness& h) {
  EXPECT_THAT(Below(h, ""), testing::IsEmpty());
  const auto view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded);
  EXPECT_TRUE(view->checkpoints.empty());
  EXPECT_THAT(view->record.reason,
              testing::StartsWith("purged: its checkpoints, parameters and round log are given up"));
  EXPECT_FALSE(view->evaluations.empty());
}

TEST(Retention, APurgedJobKeepsItsLineAndNothingElse) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(PlayToAnEndThatKeepsMuch(h));
  const uint64_t rounds = h.View(kJob)->rounds_committed;
  ASSERT_TRUE(h.Purge(kJob).ok());
  h.RunFor(Seconds(5));
  ExpectPurged(h);
  const std::string reason = h.View(kJob)->record.reason;
  ASSERT_TRUE(h.Purge(kJob).ok());  // a client that lost the answer asks again
  EXPECT_TRUE(absl::IsNotFound(h.Purge("another")));
  h.KillCoordinator();
  ExpectWell(h);
  h.StartCoordinator();
  h.RunFor(Seconds(1));
  ExpectPurged(h);
  EXPECT_EQ(h.View(kJob)->record.reason, reason);
  EXPECT_EQ(h.View(kJob)->rounds_committed, rounds);
  JobSpec next = InTwoFragments(h);
  EXPECT_TRUE(absl::IsAlreadyExists(h.Submit(next)));
  next.name = "next";
  ASSERT_TRUE(h.Submit(next).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended("next"); }));
  EXPECT_EQ(h.View("next")->record.state, JobState::kSucceeded) << h.View("next")->record.reason;
  h.KillCoordinator();
  ExpectWell(h);
}

// The files are deleted after the commit of the purge, also when the end of the job is committed in
// the same turn.
TEST(Retention, APurgeBesideTheEndOfItsJobIsDurableBeforeTheFilesGo) {
  for (uint64_t call = 0; call < 60; call += static_cast<uint64_t>(Every(3))) {
    SCOPED_TRACE(call);
    Harness h;
    h.StartCoordinator();
    ASSERT_TRUE(h.Submit(InTwoFragments(h)).ok());
    h.StartWorker("a");
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; }));
    ASSERT_TRUE(absl::IsFailedPrecondition(h.Purge(kJob))) << "it runs";
    h.AskWithoutWaiting(JobControlled{.job = JobId{kJob}, .action = JobAction::kCancel});
    h.AskWithoutWaiting(JobUnwanted{.job = JobId{kJob}});
    (void)EndsAtCall(h, call, DiskFault::kKilledBefore);
  }
}

// A cancelled preparation leaves no files, and the purge succeeds.
TEST(Retention, AJobCancelledBeforeItHadParametersLeavesNothing) {
  Harness h;
  h.StartCoordinator();
  const JobSpec spec = InTwoFragments(h);
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  h.AskWithoutWaiting(JobSubmitted{.spec = spec,
                                   .fragments = static_cast<uint32_t>(layout.fragments.size()),
                                   .stop_step = PlannedInnerSteps(spec),
                                   .dataset_samples = 1000});
  h.AskWithoutWaiting(JobControlled{.job = JobId{kJob}, .action = JobAction::kCancel});
  h.RunFor(Seconds(5));
  ASSERT_EQ(h.View(kJob)->record.state, JobState::kCancelled);
  EXPECT_THAT(Below(h, ""), testing::IsEmpty());
  ASSERT_TRUE(h.Purge(kJob).ok());
  h.KillCoordinator();
  ExpectWell(h);
}

// At every call that changes the disk, from the request on.
TEST(Retention, APurgeThatIsBrokenOffIsEndedByTheNextStart) {
  bool met = true;
  bool before = false, after = false;  // the decision was durable
  for (uint64_t call = 0; met; call += static_cast<uint64_t>(Every(5))) {
    SCOPED_TRACE(call);
    Harness h;
    ASSERT_NO_FATAL_FAILURE(PlayToAnEndThatKeepsMuch(h));
    h.AskWithoutWaiting(JobUnwanted{.job = JobId{kJob}});
    met = EndsAtCall(h, call, kFaults[call % std::size(kFaults)]);
    h.StartCoordinator();
    h.RunFor(Seconds(5));
    if (h.View(kJob)->record.parameters_ready) {
      before = true;
      EXPECT_GE(h.View(kJob)->checkpoints.size(), 2u);
    } else {
      after = true;
      ExpectPurged(h);
    }
    h.KillCoordinator();
    ExpectWell(h);
  }
  EXPECT_TRUE(before && after);
}

TEST(Retention, ARestartCountsWhatTheLogHolds) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(Spec(CodecKind::kFp32)).ok());
  for (const char* worker : {"a", "b", "c"}) h.StartWorker(worker);
  for (uint64_t version = 2; version < 20; version += 2) {  // before the third round since the start
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= version; }));
    EXPECT_LE(Segments(h).size(), 5u) << version;
    h.KillCoordinator();
    h.StartCoordinator();
  }
}

}  // namespace
}  // namespace atl
