// SPDX-License-Identifier: Apache-2.0
// Rollbacks across restarts, and whole runs with damaged or missing files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/store/data_directory.h"
#include "coordinator/store/held_rounds.h"
#include "tests/sim/harness.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kJob[] = "small";

// Pauses the job with three checkpoints on the disk, of versions 2, 4 and 6.
void PauseWithCheckpoints(Harness& h) {
  JobSpec spec = SmallJob(kJob);
  spec.checkpoint.every_rounds = 2;
  spec.evaluation.every_rounds = 1;
  spec.stop.inner_steps = 120;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 6; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
  ASSERT_EQ(h.View(kJob)->checkpoints.size(), 3u);
}

void ExpectRunsToItsEnd(Harness& h) {
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
}

void Restart(Harness& h) {
  h.KillCoordinator();
  h.StartCoordinator();
  h.RunFor(Seconds(10));
}

TEST(RollbackAndRestart, TheJobGoesOnFromTheCheckpoint) {
  Harness h;
  PauseWithCheckpoints(h);
  const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
  ASSERT_TRUE(h.RollBack(kJob, checkpoint.step).ok());
  Restart(h);
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused) << h.View(kJob)->record.reason;
  EXPECT_EQ(h.VersionOf(kJob), checkpoint.versions[0]);
  EXPECT_EQ(h.HashOf(kJob), checkpoint.hashes[0]);
  ExpectRunsToItsEnd(h);
}

TEST(RollbackAndRestart, TheNewestCommitOfARolledBackJobIsACheckpoint) {
  Harness h;
  PauseWithCheckpoints(h);
  ASSERT_TRUE(h.RollBack(kJob, h.View(kJob)->checkpoints.front().step).ok());
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  const auto at_a_checkpoint = [&] {
    const JobView view = *h.View(kJob);
    return view.checkpoints.size() > 1 && view.checkpoints.back().complete &&
           view.checkpoints.back().versions[0] == view.fragments[0].version;
  };
  ASSERT_TRUE(h.RunUntil(at_a_checkpoint));
  const Version version = h.VersionOf(kJob);
  const Digest hash = h.HashOf(kJob);
  Restart(h);
  EXPECT_NE(h.View(kJob)->record.state, JobState::kFailed) << h.View(kJob)->record.reason;
  EXPECT_EQ(h.CommittedHashes(kJob).at(version.value), hash);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
}

// The rollback is committed, but its files are not yet written.
TEST(RollbackAndRestart, KilledAtAnyMomentOfARollback) {
  for (int turns = 0; turns < 12; ++turns) {
    SCOPED_TRACE(turns);
    Harness h;
    PauseWithCheckpoints(h);
    const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
    h.AskAndTurn(JobRolledBack{.job = JobId{kJob}, .checkpoint_step = checkpoint.step, .wall_nanos = 1}, turns);
    Restart(h);
    const JobView view = *h.View(kJob);
    ASSERT_EQ(view.record.state, JobState::kPaused) << view.record.reason;
    const bool back = view.record.epoch == 1;
    EXPECT_EQ(view.checkpoints.size(), back ? 1u : 3u);
    EXPECT_EQ(view.fragments[0].version.value, back ? 2u : 6u);
    ExpectRunsToItsEnd(h);
  }
}

// Every step appears once: the log has nothing that the rollback discarded.
void ExpectOneLine(const Harness& h, uint64_t last_step) {
  const std::vector<CurvePoint> loss = h.Curve(kJob, "loss");
  ASSERT_FALSE(loss.empty());
  for (size_t i = 1; i < loss.size(); ++i) {
    const uint64_t least = loss[i - 1].step + (loss[i].step < 120 ? 1 : 0);  // closing rounds are at the last step
    EXPECT_GE(loss[i].step, least);
  }
  EXPECT_EQ(loss.back().step, last_step);
  uint64_t before = 0;
  const std::vector<EvaluationRecord> evaluations = h.View(kJob)->evaluations;
  for (const EvaluationRecord& evaluation : evaluations) {
    EXPECT_GE(evaluation.clock_step, before);
    EXPECT_LE(before = evaluation.clock_step, last_step) << "undone by the rollback";
  }
}

TEST(RollbackAndRestart, TheLossCurveGoesBackToo) {
  Harness h;
  PauseWithCheckpoints(h);
  const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
  ExpectOneLine(h, h.View(kJob)->clock_step);
  ASSERT_TRUE(h.RollBack(kJob, checkpoint.step).ok());
  ExpectOneLine(h, checkpoint.step);
  Restart(h);
  ExpectOneLine(h, checkpoint.step);
  ExpectRunsToItsEnd(h);
  ExpectOneLine(h, 120);
  Restart(h);
  ExpectOneLine(h, 120);
}

// Flips a byte in the middle of the file.
void Damage(Harness& h, const std::string& path) {
  std::vector<std::byte> content = h.files().Content(path);
  content[content.size() / 2] ^= std::byte{1};
  h.files().SetContent(path, std::move(content));
}

std::vector<std::string> Snapshots(Harness& h) {
  std::vector<std::string> found;
  for (const std::string& path : h.files().Paths()) {
    if (path.find("/snapshots/") != std::string::npos) found.push_back(path);
  }
  return found;
}

TEST(DamagedCheckpoint, ItsRollbackIsRefusedAndChangesNothing) {
  Harness h;
  PauseWithCheckpoints(h);
  const JobView before = *h.View(kJob);
  Damage(h, DataDirectory("/state").CheckpointFragmentPath(JobId{kJob}, before.checkpoints[0].step, FragmentIndex{0}));
  const absl::Status refused = h.RollBack(kJob, before.checkpoints[0].step);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("nothing was changed"), HasSubstr(".snap")));
  const JobView after = *h.View(kJob);
  EXPECT_EQ(after.record.state, JobState::kPaused);
  EXPECT_EQ(after.record.epoch, before.record.epoch);
  EXPECT_EQ(after.checkpoints.size(), 3u);
  EXPECT_EQ(after.fragments[0].hash, before.fragments[0].hash);
  // The next checkpoint is intact.
  ASSERT_TRUE(h.RollBack(kJob, before.checkpoints[1].step).ok());
  EXPECT_EQ(h.VersionOf(kJob), before.checkpoints[1].versions[0]);
  ExpectRunsToItsEnd(h);
}

TEST(DamagedSnapshot, TheJobStopsAndGoesOnWhenItIsMended) {
  Harness h;
  PauseWithCheckpoints(h);
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  h.RunFor(Seconds(1));
  h.KillCoordinator();
  std::map<std::string, std::vector<std::byte>> whole;
  for (const std::string& path : Snapshots(h)) whole[path] = h.files().Content(path);
  for (const auto& [path, content] : whole) Damage(h, path);
  h.StartCoordinator();
  h.RunFor(Seconds(5));
  const Version version = h.VersionOf(kJob);
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  EXPECT_THAT(h.View(kJob)->record.reason,
              AllOf(HasSubstr("stopped: "), HasSubstr(".snap"), HasSubstr("atoll job resume small")));
  EXPECT_THAT(h.MetricsPage(), HasSubstr("atoll_job_stopped{job=\"small\"} 1\n"));
  // Nothing is repaired yet.
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  h.RunFor(Seconds(5));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  for (const auto& [path, content] : whole) h.files().SetContent(path, content);
  ExpectRunsToItsEnd(h);
  EXPECT_GE(h.VersionOf(kJob), version);
  EXPECT_THAT(h.MetricsPage(), HasSubstr("atoll_job_stopped{job=\"small\"} 0\n"));
}

// Checkpoints are hard links to snapshots, so they share a snapshot's damage; an older checkpoint
// is intact.
TEST(DamagedSnapshot, TheJobMayGoBackToACheckpoint) {
  Harness h;
  PauseWithCheckpoints(h);
  for (const std::string& path : Snapshots(h)) Damage(h, path);
  Restart(h);
  EXPECT_THAT(h.View(kJob)->record.reason, HasSubstr("stopped: "));
  ASSERT_TRUE(h.RollBack(kJob, h.View(kJob)->checkpoints[1].step).ok());
  EXPECT_EQ(h.VersionOf(kJob).value, 4u);
  ExpectRunsToItsEnd(h);
}

// One of two jobs has, at its head, a segment of another round.
void StartWithAStrangeSegment(Harness& h, std::string& strange) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  ASSERT_TRUE(h.Submit(SmallJob("other")).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3 && h.VersionOf("other").value >= 1; }));
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->fragments[0].accepted == 0; }));
  const Version head = h.VersionOf(kJob);
  h.KillCoordinator();
  const DataDirectory directory("/state");
  strange = directory.SegmentPath({JobId{kJob}, 0, {FragmentIndex{0}, head}});
  h.files().SetContent(
      strange, h.files().Content(directory.SegmentPath({JobId{kJob}, 0, {FragmentIndex{0}, Version{head.value - 1}}})));
  h.StartCoordinator();
  h.RunFor(Seconds(5));
}

TEST(StrangeSegment, StopsItsJobOnlyUntilItIsGone) {
  Harness h;
  std::string strange;
  ASSERT_NO_FATAL_FAILURE(StartWithAStrangeSegment(h, strange));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  EXPECT_THAT(h.View(kJob)->record.reason, AllOf(HasSubstr("the round log of job small cannot be used"),
                                                 HasSubstr(strange), HasSubstr("start the coordinator again")));
  const absl::Status refused = h.Control(kJob, JobAction::kResume);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(strange));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended("other"); }));
  EXPECT_EQ(h.View("other")->record.state, JobState::kSucceeded);
  h.KillCoordinator();
  ASSERT_TRUE(h.files().Remove(strange).ok());
  h.StartCoordinator();
  h.RunFor(Seconds(5));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  ExpectRunsToItsEnd(h);
}

// Cuts `bytes` from the end of the segment of a committed round.
std::string CutCommitted(Harness& h, uint64_t version, uint64_t bytes) {
  const std::string path =
      DataDirectory("/state").SegmentPath({JobId{kJob}, 0, {FragmentIndex{0}, Version{version - 1}}});
  std::vector<std::byte> content = h.files().Content(path);
  content.resize(content.size() - bytes);
  h.files().SetContent(path, std::move(content));
  return path;
}

// The time of the job's newest log line about the segment; 0 if there is none.
int64_t DamageToldAt(const Harness& h, const std::string& path) {
  int64_t at = 0;
  for (const EventLine& line : h.EventLines(kJob)) {
    if (line.kind != "round log damaged" || line.text.find(path) == std::string::npos) continue;
    EXPECT_THAT(line.text, AllOf(HasSubstr("missing from it"), HasSubstr("from a backup")));
    at = line.wall_nanos;
  }
  return at;
}

// The parameters are recomputed from this segment. The job stops and names the missing data; the
// file stays unchanged.
TEST(CutSegment, StopsTheJobThatNeedsItUntilItIsMended) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.stop.inner_steps = 120;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  // No snapshot holds the newest round yet.
  const DataDirectory directory("/state");
  ASSERT_TRUE(h.RunUntil([&] {
    const Version version = h.VersionOf(kJob);
    return version.value >= 3 && !h.files().Exists(directory.SnapshotPath({JobId{kJob}, 0, {{0}, version}}));
  }));
  const Version head = h.VersionOf(kJob);
  h.KillCoordinator();
  const std::string path = directory.SegmentPath({JobId{kJob}, 0, {{0}, {head.value - 1}}});
  const std::vector<std::byte> whole = h.files().Content(path);
  CutCommitted(h, head.value, whole.size() / 2);
  const std::vector<std::byte> cut = h.files().Content(path);
  h.StartCoordinator();
  h.RunFor(Seconds(5));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  EXPECT_THAT(h.View(kJob)->record.reason, AllOf(HasSubstr("stopped: "), HasSubstr(path), HasSubstr("missing from it"),
                                                 HasSubstr("atoll job resume small")));
  EXPECT_EQ(h.VersionOf(kJob), head);
  EXPECT_GT(DamageToldAt(h, path), 0);
  EXPECT_EQ(h.files().Content(path), cut) << "evidence was changed";
  h.files().SetContent(path, whole);
  ExpectRunsToItsEnd(h);
}

// Two workers train a job of `steps` steps, which keeps its contributions, up to `version`.
void KeepRounds(Harness& h, uint64_t steps, uint64_t version) {
  JobSpec spec = SmallJob(kJob);
  spec.stop.inner_steps = steps;
  spec.checkpoint.every_rounds = 2;
  spec.checkpoint.keep_contributions = true;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= version; }));
}

// Nothing is recomputed from a segment older than a snapshot. The job continues, and its log
// reports the loss.
TEST(CutSegment, IsToldWhereNothingNeedsIt) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(KeepRounds(h, 120, 4));
  h.KillCoordinator();
  const std::string path = CutCommitted(h, 1, 1);
  const std::vector<std::byte> cut = h.files().Content(path);
  h.StartCoordinator();
  const int64_t told = DamageToldAt(h, path);
  EXPECT_GT(told, 0);
  h.RunFor(Seconds(5));
  Restart(h);
  EXPECT_GT(DamageToldAt(h, path), told) << "at every start";
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  EXPECT_EQ(h.files().Content(path), cut);
}

// The duration of a start does not grow with the number of kept rounds.
TEST(CutSegment, IsLookedForAmongTheNewestRounds) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(KeepRounds(h, 100'000, kRoundsCheckedAtStart + 10));
  const uint64_t head = h.VersionOf(kJob).value;
  h.KillCoordinator();
  const std::string old = CutCommitted(h, 1, 1), newer = CutCommitted(h, head - 8, 1);
  h.StartCoordinator();
  EXPECT_EQ(DamageToldAt(h, old), 0);
  EXPECT_GT(DamageToldAt(h, newer), 0);
}

// If the fault was met by the flush of an update, and so of a committed round: the path of its
// segment.
std::string UpdateInFlush(Harness& h, const DataDirectory& directory, uint64_t& reached) {
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    const std::string path = directory.SegmentPath({JobId{kJob}, 0, {{0}, {version - 1}}});
    reached = version;
    if (h.files().last_call() == "sync " + path) return path;
  }
  return "";
}

// A process was killed between the write of an update and its flush. The next process finds the
// update in the file and must not assume that it is durable: the process writes a later snapshot,
// and then the power fails.
TEST(UnflushedUpdate, IsFlushedByTheStartThatFindsIt) {
  const DataDirectory directory("/state");
  bool met = false;
  for (uint64_t call = 0; !met; ++call) {
    SCOPED_TRACE(call);
    Harness h;
    ASSERT_NO_FATAL_FAILURE(KeepRounds(h, 160, 3));
    h.files().FailAt(call, DiskFault::kKilledBefore);
    ASSERT_TRUE(h.RunUntil([&] { return h.files().met(); }, Seconds(100))) << "no flush of an update was met";
    uint64_t reached = 0;
    const std::string path = UpdateInFlush(h, directory, reached);
    met = !path.empty();
    if (!met) continue;
    h.KillCoordinator();
    h.StartCoordinator();
    ASSERT_TRUE(h.RunUntil([&] {
      for (uint64_t behind = reached; behind < reached + 4; ++behind)
        if (h.files().Exists(directory.SnapshotPath({JobId{kJob}, 0, {{0}, {behind}}}))) return true;
      return false;
    }));
    h.KillCoordinator();
    h.StartCoordinator();
    h.RunFor(Seconds(5));
    EXPECT_EQ(DamageToldAt(h, path), 0);
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  }
}

// Acknowledged contributions of the open round that are damaged or missing: their workers send them
// again.
TEST(OpenSegment, WhatIsLostOfItIsSentAgain) {
  for (const bool gone : {false, true}) {
    SCOPED_TRACE(gone);
    Harness h;
    JobSpec spec = SmallJob(kJob);
    spec.workers.min = 2;
    h.StartCoordinator();
    ASSERT_TRUE(h.Submit(spec).ok());
    h.StartWorker("a");
    h.StartWorker("b");
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
    h.KillWorker("b");
    ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->fragments[0].accepted == 1; }));
    const Version open = h.VersionOf(kJob);
    const std::string path = DataDirectory("/state").SegmentPath({JobId{kJob}, 0, {{0}, open}});
    h.KillCoordinator();
    if (gone) {
      ASSERT_TRUE(h.files().Remove(path).ok());
    } else {
      Damage(h, path);
    }
    h.StartCoordinator();
    h.StartWorker("b");
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob) > open; })) << h.View(kJob)->waiting_line;
    const std::vector<EventLine> lines = h.EventLines(kJob);
    EXPECT_EQ(std::ranges::count(lines, "round log cut", &EventLine::kind), gone ? 0 : 1);
    EXPECT_EQ(h.CommittedRounds(kJob).at(open.value + 1).contributions.size(), 2u);
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  }
}

TEST(MissingData, TheJobStopsAndGoesOnWhenItIsThereAgain) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.factory().SetMissing("shard toy/train.bin is not there");
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->record.state == JobState::kPaused; }));
  EXPECT_THAT(h.View(kJob)->record.reason,
              AllOf(HasSubstr("all 2 workers failed"), HasSubstr("shard toy/train.bin is not there")));
  const Digest hash = h.HashOf(kJob);
  // Without the data the job stops again.
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  h.RunFor(Seconds(30));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  EXPECT_EQ(h.HashOf(kJob), hash);
  h.factory().SetMissing("");
  ExpectRunsToItsEnd(h);
}

TEST(MissingData, AJobThatNeverBeganHasFailed) {
  Harness h;
  h.factory().SetMissing("shard toy/train.bin is not there");
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.StartWorker("a");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kFailed);
  const absl::Status refused = h.Control(kJob, JobAction::kResume);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("toy/train.bin"), HasSubstr("submit it again")));
}

// A round with an accepted contribution is opened again when its job is resumed. The disk reports a
// failed flush only once, so the process ends there; otherwise it would rely on data that may be
// lost.
TEST(FailedFlush, OfARoundThatIsOpenedAnewEndsTheProcess) {
  int met = 0, ended = 0;
  for (uint64_t call = 0; call == 0 || met == static_cast<int>(call); ++call) {
    SCOPED_TRACE(call);
    Harness h;
    JobSpec spec = SmallJob(kJob);
    spec.workers.min = 2;
    spec.stop.inner_steps = 120;
    h.StartCoordinator();
    ASSERT_TRUE(h.Submit(spec).ok());
    h.StartWorker("a");
    h.StartWorkerOfSpeed("b", Milliseconds(400));
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2 && h.View(kJob)->fragments[0].accepted == 1; }));
    ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
    h.RunFor(Seconds(5));
    ASSERT_EQ(h.View(kJob)->fragments[0].accepted, 1u);
    const std::string head =
        DataDirectory("/state").SegmentPath({JobId{kJob}, 0, {FragmentIndex{0}, h.VersionOf(kJob)}});
    h.files().FailAt(call, DiskFault::kError);
    h.AskWithoutWaiting(JobControlled{.job = JobId{kJob}, .action = JobAction::kResume, .wall_nanos = 1});
    h.RunUntil([&] { return h.files().met(); }, Seconds(20));
    if (!h.files().met()) break;
    ++met;
    if (h.files().last_call() != "sync " + head) continue;
    EXPECT_TRUE(h.files().dead());
    ++ended;
    h.KillCoordinator();
    h.StartCoordinator();
    h.RunFor(Seconds(5));
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }, Seconds(2000)));
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
    break;
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace atl
