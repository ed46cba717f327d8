// SPDX-License-Identifier: Apache-2.0
// sync.pace in whole runs: workers of unequal speed, each on its own machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
constexpr Duration kFast = Milliseconds(100), kSlow = Milliseconds(300);

JobSpec Paced(Pace pace) {
  JobSpec spec = SmallJob(kJob);
  spec.sync.inner_steps = 60;  // a period is longer than a heartbeat interval
  spec.sync.pace = pace;
  spec.workers.min = 2;
  spec.stop.inner_steps = 600;
  return spec;
}

void StartBoth(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorkerOfSpeed("fast", kFast);
  h.StartWorkerOfSpeed("slow", kSlow);
}

const CommittedContribution* Of(const RoundRecord& round, const std::string& worker) {
  for (const CommittedContribution& c : round.contributions) {
    if (c.header.worker.value == worker) return &c;
  }
  return nullptr;
}

void ExpectBalancedLedger(const Harness& h) {
  const BalanceView balance = h.View(kJob)->balance;
  EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
}

double SecondsToEnd(Pace pace, Harness& h) {
  StartBoth(h, Paced(pace));
  const Instant start = h.clock().Now();
  EXPECT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  return ToSeconds(h.clock().Now() - start);
}

TEST(Pace, BalancedWorkersReachTheRoundTogether) {
  Harness h;
  const double seconds = SecondsToEnd(Pace::kBalanced, h);
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  ASSERT_GE(rounds.size(), 10u);
  for (const auto& [version, round] : rounds) {
    const CommittedContribution *fast = Of(round, "fast"), *slow = Of(round, "slow");
    ASSERT_NE(fast, nullptr) << version;
    ASSERT_NE(slow, nullptr) << version;
    if (version < 3 || version > 10) continue;  // speeds are measured first; the end is irregular
    EXPECT_EQ(fast->header.steps, 60u) << version;
    EXPECT_NEAR(static_cast<double>(slow->header.steps), 20, 1) << version;
    EXPECT_NEAR(fast->weight / slow->weight, 3, 0.2) << "weights by tokens";
    EXPECT_EQ(fast->header.send_step, slow->header.send_step);
  }
  // Ten periods of 60 fast steps. The first is partly at the slow worker's pace, and evaluations
  // add waits.
  EXPECT_LT(seconds, 10 * 6.0 + 14);
  ExpectBalancedLedger(h);
}

TEST(Pace, UniformWaitsForTheSlowest) {
  Harness h;
  EXPECT_GT(SecondsToEnd(Pace::kUniform, h), 10 * 18.0 - 1) << "ten periods of 60 slow steps";
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    ASSERT_NE(Of(round, "slow"), nullptr);
    EXPECT_EQ(Of(round, "slow")->header.steps, 60u);
  }
}

// A repeated run also gives the same bits.
TEST(Pace, EqualWorkersTakeTheWholePeriod) {
  std::map<uint64_t, Digest> first;
  for (int i = 0; i < 2; ++i) {
    Harness h(3);
    h.StartCoordinator();
    ASSERT_TRUE(h.Submit(Paced(Pace::kBalanced)).ok());
    h.StartWorkerOfSpeed("a", kFast);
    h.StartWorkerOfSpeed("b", kFast);
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    for (const auto& [version, round] : h.CommittedRounds(kJob)) {
      for (const CommittedContribution& c : round.contributions) EXPECT_EQ(c.header.steps, 60u) << version;
    }
    if (i == 0) first = h.CommittedHashes(kJob);
    EXPECT_EQ(first, h.CommittedHashes(kJob));
  }
}

// The coordinator does not store paces; the workers' heartbeats report them.
TEST(Pace, SurvivesTheCoordinator) {
  Harness h;
  StartBoth(h, Paced(Pace::kBalanced));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 4; }));
  h.KillCoordinator();
  h.RunFor(Seconds(1));
  h.StartCoordinator();
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 8; }));
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    if (version < 6) continue;
    ASSERT_NE(Of(round, "slow"), nullptr) << version;
    EXPECT_NEAR(static_cast<double>(Of(round, "slow")->header.steps), 20, 1) << version;
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  ExpectBalancedLedger(h);
}

TEST(Pace, FollowsWhoIsThere) {
  Harness h;
  JobSpec spec = Paced(Pace::kBalanced);
  spec.workers.min = 1;
  StartBoth(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 4; }));
  h.KillWorker("fast");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  ASSERT_NE(Of(rounds.at(9), "slow"), nullptr);
  EXPECT_EQ(Of(rounds.at(9), "slow")->header.steps, 60u);
  ExpectBalancedLedger(h);
}

// Fragments in flight with an overlap: both workers send every fragment once a period, whatever
// their steps.
TEST(Pace, StreamsFragmentsWithOverlap) {
  Harness h;
  JobSpec spec = Paced(Pace::kBalanced);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.sync.overlap_steps = 5;
  spec.sync.mix = 0.5;
  StartBoth(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_LT(view->evaluations.back().nll_micro_nats, view->evaluations.front().nll_micro_nats / 2);
  for (uint32_t p = 0; p < 3; ++p) {
    const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob, p);
    EXPECT_GE(rounds.size(), 10u);
    for (const auto& [version, round] : rounds) {
      if (version < 3 || version > 9) continue;
      ASSERT_NE(Of(round, "slow"), nullptr) << p << " " << version;
      EXPECT_NEAR(static_cast<double>(Of(round, "slow")->header.steps), 20, 1) << p << " " << version;
    }
  }
  ExpectBalancedLedger(h);
}

// The steps and versions of two workers, sampled every 50 ms. With `joins` a third worker meanwhile
// fetches the fragments over a slow link.
std::vector<std::array<uint64_t, 3>> StepsBesideAJoiner(bool joins) {
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.sync.inner_steps = 20;  // one period per second
  spec.workers = {.min = 2, .max = 3, .planned = 3};
  spec.stop.inner_steps = 20'000;
  spec.checkpoint.every_rounds = 0;
  h.StartCoordinator();
  EXPECT_TRUE(h.Submit(spec).ok());
  for (const char* name : {"a", "b"}) h.StartWorkerOfSpeed(name, Milliseconds(50));
  EXPECT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 5; }));
  if (joins) {
    h.StartWorkerOfSpeed("joiner", Milliseconds(50));
    h.DelayDownloads("joiner", Seconds(15));
  }
  const auto steps = [&h](const char* name) { return h.session(name)->core().clock_step(); };
  std::vector<std::array<uint64_t, 3>> seen;
  const auto some_are = [&h](WorkerState state, int64_t count) {
    return std::ranges::count(h.ViewWorkers(), state, &WorkerView::state) == count;
  };
  for (const Instant end = h.clock().Now() + Seconds(14); h.clock().Now() < end;) {
    h.RunFor(Milliseconds(50));
    seen.push_back({steps("a"), steps("b"), h.VersionOf(kJob).value});
    EXPECT_TRUE(some_are(WorkerState::kTraining, 2) && (!joins || some_are(WorkerState::kJoining, 1))) << seen.size();
  }
  EXPECT_TRUE(!joins || h.RunUntil([&] { return some_are(WorkerState::kTraining, 3); }, Seconds(60)));
  return seen;
}

TEST(Joining, OthersTakeTheirStepsAsIfNobodyJoined) {
  const auto beside = StepsBesideAJoiner(true), alone = StepsBesideAJoiner(false);
  EXPECT_EQ(beside, alone);
  EXPECT_GE(alone.back()[0] - alone.front()[0], 250u) << "14 s of steps of 50 ms, with syncs";
  EXPECT_GE(alone.back()[2] - alone.front()[2], 12u) << "rounds";
}

// A worker that returns sends together with the others from its next send step on. If it sent
// slightly later every period, rounds would wait until their grace ended.
TEST(Joining, AWorkerThatComesBackIsInTheNextRounds) {
  constexpr uint32_t kFragments = 3;
  Harness h;
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.sync.overlap_steps = 2;
  spec.sync.inner_steps = 60;
  spec.workers = {.min = 2, .max = 4, .planned = 4};
  spec.stop.inner_steps = 20'000;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  for (const char* name : {"a", "b", "c", "d"}) h.StartWorkerOfSpeed(name, Milliseconds(50));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; }));
  Rng random(7);
  size_t rounds = 0, without = 0;
  for (int turn = 0; turn < 12; ++turn) {
    h.RunFor(Milliseconds(static_cast<int64_t>(random.Below(3000))));
    h.KillWorker("a");
    h.RunFor(Milliseconds(static_cast<int64_t>(200 + random.Below(1000))));
    h.StartWorkerOfSpeed("a", Milliseconds(50));
    ASSERT_TRUE(h.RunUntil([&] {
      const std::vector<WorkerView> workers = h.ViewWorkers();
      return std::ranges::any_of(
          workers, [](const WorkerView& w) { return w.worker == WorkerId{"a"} && w.state == WorkerState::kTraining; });
    }));
    std::array<uint64_t, kFragments> begun{};
    for (uint32_t p = 0; p < kFragments; ++p) begun[p] = h.VersionOf(kJob, p).value;
    h.RunFor(Seconds(9));  // three periods
    for (uint32_t p = 0; p < kFragments; ++p) {
      for (const auto& [version, round] : h.CommittedRounds(kJob, p)) {
        if (version <= begun[p]) continue;
        ++rounds;
        without += std::ranges::none_of(
            round.contributions, [](const CommittedContribution& c) { return c.header.worker == WorkerId{"a"}; });
      }
    }
  }
  EXPECT_GT(rounds, 80u);
  // In each iteration the returning worker may have missed one send step.
  EXPECT_LE(without, 12u) << "of " << rounds;
}

}  // namespace
}  // namespace atl
