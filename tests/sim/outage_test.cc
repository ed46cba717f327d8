// SPDX-License-Identifier: Apache-2.0
// The cost of a coordinator outage beyond its own length. Workers train on meanwhile, each at its
// own speed, and must return to one rhythm. With several fragments, two workers that wait for each
// other's contribution to another fragment would proceed at the pace of their timeouts.
#include <gtest/gtest.h>

#include "tests/sim/harness.h"
#include "tests/sim/share.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
constexpr Duration kLooked = Seconds(40);
#ifdef ATOLL_SANITIZED
constexpr int64_t kOutagesMs[] = {2300};
#else
constexpr int64_t kOutagesMs[] = {500, 1400, 2300, 5900, 7700};
#endif

struct Setting {
  uint32_t overlap_steps = 0, layers_per_fragment = 1;
  std::vector<Duration> steps;  // of each worker
};

JobSpec Streamed(const Setting& setting) {
  JobSpec spec = SmallJob(kJob);
  spec.sync.inner_steps = 20;
  spec.sync.overlap_steps = setting.overlap_steps;
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = setting.layers_per_fragment;
  spec.stop.inner_steps = 100'000;
  spec.evaluation.every_rounds = 0;
  return spec;
}

void Start(Harness& h, const Setting& setting) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(Streamed(setting)).ok());
  for (size_t i = 0; i < setting.steps.size(); ++i) {
    h.StartWorkerOfSpeed(std::string(1, static_cast<char>('a' + i)), setting.steps[i]);
  }
  h.RunFor(Seconds(20));
}

uint64_t Rounds(const Harness& h) {
  uint64_t rounds = 0;
  for (uint32_t p = 0; p < h.View(kJob)->fragments.size(); ++p) rounds += h.VersionOf(kJob, p).value;
  return rounds;
}

uint64_t RoundsIn(Harness& h, Duration time) {
  const uint64_t before = Rounds(h);
  h.RunFor(time);
  return Rounds(h) - before;
}

class Outage : public testing::TestWithParam<Setting> {};

TEST_P(Outage, WorkersFindOneRhythmAgain) {
  Harness undisturbed;
  Start(undisturbed, GetParam());
  ASSERT_GE(undisturbed.View(kJob)->fragments.size(), 2u);
  const uint64_t usual = RoundsIn(undisturbed, kLooked);
  ASSERT_GT(usual, 50u);
  for (const int64_t ms : kOutagesMs) {
    SCOPED_TRACE(testing::Message() << "away for " << ms << " ms");
    Harness h(static_cast<uint64_t>(ms));
    Start(h, GetParam());
    h.RunFor(Milliseconds(3 * ms));  // another moment of the period each time
    h.KillCoordinator();
    h.RunFor(Milliseconds(ms));
    h.StartCoordinator();
    EXPECT_GT(RoundsIn(h, kLooked), usual * 8 / 10) << "of " << usual;
    const BalanceView balance = h.View(kJob)->balance;
    EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
  }
}

// The end begins while the worker's stream is down, or at a coordinator that dies before it sends
// the notice. The worker trains beyond the last step until it reconnects; that work is merged too.
TEST(TheEnd, ThatAWorkerHearsOfAtItsReconnectLosesNothing) {
  for (const bool dies : {false, true}) {
    for (int64_t moment = 0; moment < 25; ++moment) {
      SCOPED_TRACE(testing::Message() << "moment " << moment << (dies ? ", the coordinator dies" : ""));
      Harness h(static_cast<uint64_t>(moment) + 1);
      h.StartCoordinator();
      JobSpec spec = SmallJob(kJob);
      spec.sync.inner_steps = 40;
      spec.stop.inner_steps = 100'000;
      ASSERT_TRUE(h.Submit(spec).ok());
      h.StartWorkerOfSpeed("a", Milliseconds(30));
      h.RunFor(Milliseconds(4000 + 67 * moment));
      h.BreakStream("a");
      ASSERT_TRUE(h.Control(kJob, JobAction::kCancelWithDrain).ok());
      if (dies) {
        h.KillCoordinator();
        h.RunFor(Milliseconds(300));
        h.StartCoordinator();
      }
      ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
      EXPECT_EQ(h.View(kJob)->record.state, JobState::kCancelled);
      EXPECT_EQ(h.View(kJob)->balance.consumed, h.factory().trained().size()) << "no sample was trained for nothing";
    }
  }
}

// A worker that runs ahead has sent contributions that wait for the other workers, beyond the job's
// clock, and trains on.
TEST(TheEnd, ThatComesWhileContributionsWaitLosesNothing) {
  for (int64_t moment = 0; moment < 60; moment += Every(4)) {
    SCOPED_TRACE(moment);
    Harness h(static_cast<uint64_t>(moment) + 1);
    h.StartCoordinator();
    JobSpec spec = SmallJob(kJob);
    spec.sync.inner_steps = 40;
    spec.sync.overlap_steps = 15;
    spec.stop.inner_steps = 100'000;
    ASSERT_TRUE(h.Submit(spec).ok());
    h.StartWorkerOfSpeed("a", Milliseconds(30));
    h.StartWorkerOfSpeed("b", Milliseconds(45));
    h.RunFor(Milliseconds(8000 + 67 * moment));
    ASSERT_TRUE(h.Control(kJob, JobAction::kCancelWithDrain).ok());
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kCancelled);
    EXPECT_EQ(h.View(kJob)->balance.consumed, h.factory().trained().size()) << "no sample was trained for nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Outage,
                         testing::Values(Setting{0, 1, {Milliseconds(30), Milliseconds(30)}},
                                         Setting{0, 2, {Milliseconds(30), Milliseconds(40)}},
                                         Setting{5, 1, {Milliseconds(30), Milliseconds(33)}},
                                         Setting{3, 1, {Milliseconds(30), Milliseconds(36), Milliseconds(41)}}));

}  // namespace
}  // namespace atl
