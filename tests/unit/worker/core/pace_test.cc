// SPDX-License-Identifier: Apache-2.0
// sync.pace balanced at the worker: fewer own steps per period, on the same job clock.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

JobSpec Balanced(uint32_t inner_steps = 12) {
  JobSpec spec = SmallSpec();
  spec.sync.inner_steps = inner_steps;
  spec.sync.pace = Pace::kBalanced;
  return spec;
}

// The newest contribution of fragment 0.
const ContributionHeader& Sent(World& w) { return w.uploads.at(0).header; }

TEST(WorkerPace, AThirdOfTheStepsReachesTheSameSendStep) {
  World w(Balanced());
  w.Start();
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).period_steps, 12u);
  w.Hear(PaceAssigned{JobId{"tiny"}, 4});
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).period_steps, 4u);
  w.Steps(3);
  EXPECT_EQ(w.core().clock_step(), 9u);
  EXPECT_FALSE(w.Did("form 0"));
  w.Steps(1);
  w.Boundary();
  ASSERT_TRUE(w.Did("form 0 v0"));
  EXPECT_EQ(Sent(w).steps, 4u);
  EXPECT_EQ(Sent(w).tokens, 4u * 16);
  EXPECT_EQ(Sent(w).send_step, 12u);
  EXPECT_EQ(w.steps[3].rate_step, 9u) << "the inner rate follows the job clock";
}

TEST(WorkerPace, AStepThatPassesTheSendStepSends) {
  World w(Balanced(10), 2);  // fragments are sent at 5 and 10
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 3});
  w.Steps(2);  // 3, 6
  w.Boundary();
  ASSERT_TRUE(w.Did("form 0 v0"));
  EXPECT_FALSE(w.Did("form 1"));
  EXPECT_EQ(Sent(w).send_step, 5u) << "what it stands for, not where the clock went";
  EXPECT_EQ(Sent(w).steps, 2u);
}

TEST(WorkerPace, LimitsAreInOwnSteps) {
  World w(Balanced());
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 4});
  w.Steps(1000);
  EXPECT_EQ(w.steps_taken, 4u) << "waits at the apply step";
  EXPECT_TRUE(w.Did("wish 1 for 16")) << "two periods of four steps of two samples";
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 12);
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 5u);
}

TEST(WorkerPace, TheEndIsReachedOnTheClock) {
  JobSpec spec = Balanced();
  spec.stop.inner_steps = 24;
  spec.sync.overlap_steps = 3;
  World w(spec);
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 4});
  for (uint64_t version = 1; version <= 3 && w.core().clock_step() < 24; ++version) {
    w.Steps(4);
    if (!w.uploads.empty()) w.Accept(0);
    w.Publish(0, version, {"w1"}, version * 12 - 3);
  }
  w.Steps(20);
  EXPECT_EQ(w.core().clock_step(), 24u);
  EXPECT_EQ(w.steps_taken, 8u);
  EXPECT_NE(w.core().MakeHeartbeat(w.now()).waiting_for.find("the end of job"), std::string::npos);
}

TEST(WorkerPace, IsForBalancedJobsOnly) {
  World w;
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 2});
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).period_steps, 0u);
  w.Steps(4);
  EXPECT_EQ(w.core().clock_step(), 4u);
}

TEST(WorkerPace, ANewIncarnationBeginsAtTheFullPace) {
  World w(Balanced());
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 4});
  w.Steps(2);
  w.Give(StreamDown{"gone"});
  w.Connect(false, 1, 6);
  w.Assign({Version{0}});
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).period_steps, 12u);
  EXPECT_EQ(w.core().clock_step(), 0u);
}

TEST(WorkerPace, AReconnectKeepsIt) {
  World w(Balanced());
  w.Start();
  w.Hear(PaceAssigned{JobId{"tiny"}, 4});
  w.Steps(2);
  w.Give(StreamDown{"gone"});
  w.Connect(true);
  w.Assign({Version{0}});
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).period_steps, 4u);
  EXPECT_EQ(w.core().clock_step(), 6u);
}

}  // namespace
}  // namespace atl::worker
