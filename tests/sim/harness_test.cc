// SPDX-License-Identifier: Apache-2.0
// Whole runs in one thread: coordinator crashes, workers that come and go, and broken streams.
#include "tests/sim/harness.h"

#include <gtest/gtest.h>

#include "tests/sim/share.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

void StartTwo(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
}

// Every committed sample was trained at least once, and the pools add up (I12).
void ExpectBalanced(const Harness& h) {
  const std::optional<JobView> view = h.View(kJob);
  ASSERT_TRUE(view.has_value());
  const BalanceView& balance = view->balance;
  EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
  EXPECT_LE(balance.consumed, h.factory().trained().size());
}

TEST(Harness, RunsAJobToItsEnd) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_EQ(view->fragments[0].version.value, 6u);  // 60 steps at H = 10
  ASSERT_EQ(view->evaluations.size(), 2u);
  EXPECT_LT(view->evaluations.back().nll_micro_nats, view->evaluations.front().nll_micro_nats / 2);
  ASSERT_EQ(view->checkpoints.size(), 1u);
  EXPECT_TRUE(view->checkpoints[0].complete);
  EXPECT_EQ(view->checkpoints[0].hashes[0], view->fragments[0].hash);
  ExpectBalanced(h);
}

TEST(Harness, SameSeedSameHashes) {
  std::map<uint64_t, Digest> first;
  for (int i = 0; i < 2; ++i) {
    Harness h(7);
    StartTwo(h, SmallJob(kJob));
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    if (i == 0) first = h.CommittedHashes(kJob);
    EXPECT_EQ(first, h.CommittedHashes(kJob));
    EXPECT_EQ(first.size(), 6u);
  }
}

TEST(Harness, StreamsFragmentsWithOverlap) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.sync.overlap_steps = 1;
  spec.sync.mix = 0.5;
  spec.sync.upload_codec = CodecKind::kBf16;
  spec.sync.upload_error_memory = ErrorMemory::kFeedback;
  spec.sync.download_codec = CodecKind::kFp16;
  StartTwo(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  ASSERT_EQ(view->fragments.size(), 3u);
  for (const FragmentView& fragment : view->fragments) EXPECT_GE(fragment.version.value, 6u);
  EXPECT_LT(view->evaluations.back().nll_micro_nats, view->evaluations.front().nll_micro_nats / 2);
  ExpectBalanced(h);
}

// Every codec with every error memory: the run ends and learns, and all workers compute the
// coordinator's hashes.
TEST(Harness, EveryCodecAndErrorMemoryOnBothLegs) {
  const CodecKind codecs[] = {CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};
  const ErrorMemory memories[] = {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco};
  for (const CodecKind codec : codecs) {
    for (const ErrorMemory memory : memories) {
      SCOPED_TRACE(static_cast<int>(codec) * 10 + static_cast<int>(memory));
      Harness h;
      JobSpec spec = SmallJob(kJob);
      spec.sync.pattern = FragmentPattern::kStrided;
      spec.sync.layers_per_fragment = 2;
      spec.sync.overlap_steps = 1;
      spec.sync.upload_codec = spec.sync.download_codec = codec;
      spec.sync.upload_error_memory = spec.sync.download_error_memory = memory;
      spec.sync.loco.reset_syncs = 4;
      StartTwo(h, spec);
      ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
      const std::optional<JobView> view = h.View(kJob);
      EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
      EXPECT_LT(view->evaluations.back().nll_micro_nats, view->evaluations.front().nll_micro_nats / 2);
      ExpectBalanced(h);
    }
  }
}

// I2, I6, I26: everything committed stays, bit for bit, and the run continues by itself.
TEST(Harness, CoordinatorDiesAndComesBack) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; }));
  const Version version = h.VersionOf(kJob);
  const Digest hash = h.HashOf(kJob);
  h.KillCoordinator();
  h.RunFor(Seconds(3));
  h.StartCoordinator();
  EXPECT_EQ(h.VersionOf(kJob), version);
  EXPECT_EQ(h.HashOf(kJob), hash);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_EQ(view->clock_step, 60u);
  EXPECT_GE(view->fragments[0].version.value, 5u) << "6 periods; what was trained meanwhile is one contribution";
  ExpectBalanced(h);
}

// The closing round applies a share of the momentum: its steps divided by a period's
// (docs/adr/0006). Other rounds apply all of it.
TEST(Harness, AShortClosingRoundTakesAShareOfTheMomentum) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.stop.inner_steps = 32;
  StartTwo(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  ASSERT_GE(rounds.size(), 2u);
  ASSERT_GT(spec.outer.momentum, 0);
  for (const auto& [version, round] : rounds) {
    uint64_t most = 0;
    for (const CommittedContribution& c : round.contributions) most = std::max(most, c.header.steps);
    const bool last = version == rounds.rbegin()->first;
    ASSERT_EQ(last, most < 10) << "32 steps are whole periods and 2 steps";
    EXPECT_DOUBLE_EQ(round.momentum, last ? spec.outer.momentum * 2 / 10 : spec.outer.momentum);
  }
}

// An earlier round that closes after the end has begun is not the last one: the worker's later work
// follows in another round.
TEST(Harness, AShortRoundOfBeforeTheEndTakesTheWholeMomentum) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.stop.inner_steps = 32;
  spec.sync.overlap_steps = 5;
  h.StartCoordinator();
  ASSERT_EQ(h.Submit(spec), absl::OkStatus());
  h.StartWorkerOfSpeed("w1", Seconds(2));
  const auto at = [&](const std::string& name, uint64_t step) {
    for (const WorkerView& view : h.ViewWorkers()) {
      if (view.worker.value == name) return view.state == WorkerState::kTraining && view.last.step >= step;
    }
    return false;
  };
  ASSERT_TRUE(h.RunUntil([&] { return at("w1", 24); }));
  h.StartWorkerOfSpeed("w2", Milliseconds(500));
  ASSERT_TRUE(h.RunUntil([&] { return at("w2", 24); }));
  h.KillWorker("w1");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  uint64_t before = 0;
  for (const auto& [version, round] : rounds) {
    uint64_t most = 0, newest = 0;
    for (const CommittedContribution& c : round.contributions) {
      most = std::max(most, c.header.steps);
      newest = std::max(newest, c.header.send_step);
    }
    const bool last = version == rounds.rbegin()->first;
    before += most < 10 && newest < 32 ? 1 : 0;
    EXPECT_EQ(newest >= 32, last);
    EXPECT_DOUBLE_EQ(round.momentum, last ? spec.outer.momentum * static_cast<double>(most) / 10 : spec.outer.momentum);
  }
  EXPECT_GE(before, 1u) << "of a worker that joined in the middle of the last whole period";
}

TEST(Harness, CoordinatorDiesAtManyMoments) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Harness h(seed);
    StartTwo(h, SmallJob(kJob));
    for (int kill = 0; kill < 3; ++kill) {
      h.RunFor(Milliseconds(static_cast<int64_t>(137 * seed + 411 * static_cast<uint64_t>(kill))));
      h.KillCoordinator();
      h.RunFor(Milliseconds(static_cast<int64_t>(50 * seed)));
      h.StartCoordinator();
    }
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
    ExpectBalanced(h);
  }
}

TEST(Harness, WorkerDiesAndItsSamplesAreLeasedAgain) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.KillWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
  const BalanceView balance = h.View(kJob)->balance;
  EXPECT_EQ(balance.leased, 0u);
}

TEST(Harness, WorkerComesBackUnderItsName) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.KillWorker("b");
  h.RunFor(Seconds(25));  // lost by then
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
}

// The job has fragments in flight and needs both workers. The remaining worker must wait at an
// apply step no longer than the other needs to return and to reach the fragment's send step.
TEST(Harness, AWorkerThatComesBackIsNotWaitedForLong) {
  Duration worst{};
  for (const uint32_t overlap : {1u, 2u}) {
    for (int64_t moment = 0; moment < 24; moment += Every(4)) {
      SCOPED_TRACE(testing::Message() << "overlap " << overlap << ", moment " << moment);
      Harness h;
      JobSpec spec = SmallJob(kJob);
      spec.sync.pattern = FragmentPattern::kStrided;
      spec.sync.layers_per_fragment = 2;
      spec.sync.overlap_steps = overlap;
      spec.workers.min = 2;
      StartTwo(h, spec);
      ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
      h.RunFor(Milliseconds(53 * moment));
      h.KillWorker("b");
      h.RunFor(Milliseconds(20));
      h.StartWorker("b");
      Instant waits_since = kNever;
      ASSERT_TRUE(h.RunUntil([&] {
        const worker::Core& core = h.session("a")->core();
        const Instant now = h.clock().Now();
        const bool waits = core.waiting_for(now).find(" of fragment ") != std::string::npos;
        if (!waits) waits_since = kNever;
        if (waits && waits_since == kNever) waits_since = now;
        if (waits && now - waits_since > worst) worst = now - waits_since;
        return h.Ended(kJob);
      }));
      EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
      ExpectBalanced(h);
    }
  }
  EXPECT_LT(worst, Seconds(1)) << "about a period of two workers that share a core";
}

// With fragments in flight, one worker is part of a period or more later than the other, because of
// the first evaluation or a later start. The worker that reaches the stop step first must not keep
// the other waiting for a round that never completes.
TEST(Harness, TheEndComesAtOnceWithWorkersAtDifferentSteps) {
  for (const uint32_t minimum : {1u, 2u}) {
    for (const uint32_t overlap : {0u, 1u, 3u, 6u, 9u}) {
      for (int64_t moment = 0; moment < 12; moment += Every(5)) {
        SCOPED_TRACE(testing::Message() << "min " << minimum << ", overlap " << overlap << ", moment " << moment);
        Harness h;
        JobSpec spec = SmallJob(kJob);
        spec.sync.pattern = FragmentPattern::kStrided;
        spec.sync.layers_per_fragment = 2;
        spec.sync.overlap_steps = overlap;
        spec.workers.min = minimum;
        spec.stop.inner_steps = 60 + static_cast<uint64_t>(moment);
        h.StartCoordinator();
        ASSERT_TRUE(h.Submit(spec).ok());
        h.StartWorker("a");
        h.RunFor(Milliseconds(150 * moment));
        h.StartWorker("b");
        const Instant since = h.clock().Now();
        ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
        EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
        ExpectBalanced(h);
        EXPECT_LT(h.clock().Now() - since, Milliseconds(8500)) << "all steps of two workers that share a core take 7 s";
      }
    }
  }
}

TEST(Harness, BrokenStreamLosesNothing) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  for (int i = 0; i < 4; ++i) {
    h.RunFor(Milliseconds(700));
    h.BreakStream(i % 2 == 0 ? "a" : "b");
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  EXPECT_EQ(h.View(kJob)->fragments[0].version.value, 6u);
  ExpectBalanced(h);
}

TEST(Harness, LateWorkerJoins) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.StartWorker("a");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->participating == 2; }));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->participating, 0u);  // no worker is alive
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
}

TEST(Harness, LeavingWorkerReturnsItsLeases) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.LeaveWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.session("b")->exit().has_value(); }, Seconds(60)));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
}

// The work of the leaving worker is merged in the period's round, and its samples are not leased
// again.
TEST(Harness, AWorkerThatLeavesInMidPeriodSendsWhatItHas) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.sync.inner_steps = 40;
  spec.stop.inner_steps = 240;
  StartTwo(h, spec);
  const auto in_mid_period = [&] {
    const std::vector<worker::FragmentStatus> fragments = h.session("b")->core().fragments();
    return !fragments.empty() && fragments[0].applied.value == 2 && fragments[0].steps_behind == 3;
  };
  ASSERT_TRUE(h.RunUntil(in_mid_period));
  h.LeaveWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.session("b")->exit().has_value(); }, Seconds(60)));
  EXPECT_EQ(h.session("b")->exit()->reason, worker::ExitReason::kLeft);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  EXPECT_EQ(rounds.size(), 6u);
  std::map<std::string, uint64_t> steps;
  for (const CommittedContribution& c : rounds.at(3).contributions) steps[c.header.worker.value] = c.header.steps;
  EXPECT_EQ(steps, (std::map<std::string, uint64_t>{{"a", 40}, {"b", 3}}));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
  EXPECT_EQ(h.View(kJob)->balance.consumed, h.factory().trained().size()) << "no sample was trained for nothing";
}

// With fragments in flight, also when the stream breaks at that moment: the job ends, and no sample
// is lost.
TEST(Harness, AWorkerMayLeaveAtAnyMoment) {
  for (int64_t moment = 0; moment < 30; ++moment) {
    SCOPED_TRACE(moment);
    Harness h(static_cast<uint64_t>(moment) + 1);
    JobSpec spec = SmallJob(kJob);
    spec.sync.pattern = FragmentPattern::kStrided;
    spec.sync.layers_per_fragment = 2;
    spec.sync.overlap_steps = 2;
    spec.sync.mix = 0.5;
    StartTwo(h, spec);
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 1; }));
    h.RunFor(Milliseconds(53 * moment));
    h.LeaveWorker("b");
    if (moment % 3 == 0) h.BreakStream("b");
    ASSERT_TRUE(h.RunUntil([&] { return h.session("b")->exit().has_value(); }, Seconds(40)));
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
    EXPECT_LE(h.VersionOf(kJob).value, 8u) << "no round is made of the leaving worker's rest alone";
    ExpectBalanced(h);
    EXPECT_EQ(h.View(kJob)->balance.leased, 0u);
  }
}

// No time passes between the end of the job and the look: the newest heartbeats are those sent
// during the job.
TEST(Harness, AnIdleWorkerIsShownAsIdleAtOnce) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 4; }));
  for (const WorkerView& view : h.ViewWorkers()) {
    EXPECT_NE(view.last.activity, WorkerActivity::kIdle);
    EXPECT_GT(view.last.step, 0u);
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::vector<WorkerView> views = h.ViewWorkers();
  ASSERT_EQ(views.size(), 2u);
  for (const WorkerView& view : views) {
    EXPECT_EQ(view.last.activity, WorkerActivity::kIdle);
    EXPECT_EQ(view.last.waiting_for, "");
    EXPECT_EQ(view.last.step, 0u);
  }
}

// Refused work stays in the drift and is sent in a later contribution; no round waits forever.
TEST(Harness, RefusedContributionsDoNotStopTheRun) {
  for (const int count : {1, 2, 3}) {
    SCOPED_TRACE(count);
    Harness h;
    StartTwo(h, SmallJob(kJob));
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 1; }));
    h.RefuseUploads("a", count);
    h.RefuseUploads("b", count);
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }))
        << h.View(kJob)->waiting_line << "; a: " << h.session("a")->core().MakeHeartbeat(h.clock().Now()).waiting_for;
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
    ExpectBalanced(h);
  }
}

// The digest is checked outside the engine's thread, where the bytes are.
TEST(Harness, AContributionThatArrivesWithOtherBytesIsCountedAndTold) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 1; }));
  h.CorruptUploads("a", 1);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  std::vector<std::string> told;
  for (const EventLine& line : h.EventLines(kJob)) {
    if (line.kind == "upload refused") told.push_back(line.text);
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("a contribution of worker a is refused: "), std::string::npos) << told[0];
  EXPECT_NE(h.MetricsPage().find("rejected_total{job=\"small\",reason=\"DATA_LOSS\"} 1\n"), std::string::npos)
      << h.MetricsPage();
  ExpectBalanced(h);
}

TEST(Harness, PauseAndResume) {
  Harness h;
  StartTwo(h, SmallJob(kJob));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kPaused);
  const Version version = h.VersionOf(kJob);
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  EXPECT_GE(h.VersionOf(kJob), version);
  ExpectBalanced(h);
}

TEST(Harness, RollsBackToACheckpoint) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.checkpoint.every_rounds = 2;
  StartTwo(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 4; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
  const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
  ASSERT_TRUE(h.Ask(JobRolledBack{.job = JobId{kJob}, .checkpoint_step = checkpoint.step, .wall_nanos = 1}).ok());
  EXPECT_EQ(h.VersionOf(kJob), checkpoint.versions[0]);
  EXPECT_EQ(h.HashOf(kJob), checkpoint.hashes[0]);
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  ExpectBalanced(h);
}

}  // namespace
}  // namespace atl
