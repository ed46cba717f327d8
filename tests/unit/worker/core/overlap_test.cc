// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

TEST(WorkerOverlap, AnEarlyUpdateWaitsForItsStep) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 2;
  World w(spec);
  w.Start();
  w.Steps(2);  // offset of the only fragment: 4 - 2
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 2"));
  EXPECT_FALSE(w.Did("at rest")) << "steps are taken until the update comes";
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 2);
  EXPECT_FALSE(w.Did("resolve"));
  w.Steps(4 - w.steps_taken);
  EXPECT_FALSE(w.Did("resolve"));
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, w.steps_taken - 2) << "the overlap's steps are still behind";
}

TEST(WorkerOverlap, AWorkersOwnCountsFromTheJobsSendStep) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 1;
  CoreOptions options = World::Options();
  options.overlap_steps = 2;
  World w(spec, 1, options);
  w.Start();
  w.Steps(3);  // offset of the only fragment: 4 - 1, as for the others
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 3"));
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 3);
  for (int i = 0; i < 20 && !w.Did("apply 0 v1 contributor"); ++i) w.Boundary();
  EXPECT_EQ(w.steps_taken, 5u) << "two steps behind the send, where the job says one";
}

TEST(WorkerOverlap, OverlapIsShortenedToAPeriod) {
  CoreOptions options = World::Options();
  options.overlap_steps = 100;
  World w(SmallSpec(), 1, options);
  w.Start();
  EXPECT_TRUE(w.Did("note overlap shortened"));
}

}  // namespace
}  // namespace atl::worker
