// SPDX-License-Identifier: Apache-2.0
// An update that arrives before its apply step is applied to the outer copy while the remaining
// steps run. Local parameters are still merged at the apply step. Work that depends on the
// application waits for it (docs/adr/0026).
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

const FragmentVersion kFirst{FragmentIndex{0}, Version{1}};

// Sent at step 3 of a period of six, merged at step 6.
JobSpec Overlapped() {
  JobSpec spec = SmallSpec();
  spec.sync.inner_steps = 6;
  spec.sync.overlap_steps = 3;
  return spec;
}

// Trains past step 4, while the update of the send at step 3 is being applied.
void TrainToTheUpdate(World& w, bool accepted = true) {
  w.Start();
  w.Steps(3);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 3"));
  ASSERT_EQ(w.steps_taken, 4u);
  if (accepted) w.Accept(0);
  w.form_and_apply = false;
  w.Publish(0, 1, {"w1"}, 3);
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1 contributor beside"));
}

void Moved(World& w, bool hash_matches = true) { w.Give(UpdateApplied{kFirst, hash_matches}); }

TEST(WorkerApplying, StepsAreTakenMeanwhileAndTheMergeComesAtItsStep) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  EXPECT_EQ(w.steps_taken, 5u);
  Moved(w);
  EXPECT_TRUE(w.Did("applied 0 v1"));
  EXPECT_FALSE(w.Did("resolve")) << "its apply step is behind step 6";
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 6u);
  EXPECT_FALSE(w.Did("resolve"));
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_FALSE(w.Did("late"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, w.steps_taken - 3) << "the overlap's steps are still behind";
}

TEST(WorkerApplying, TheApplyStepWaitsForIt) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  for (int i = 0; i < 5; ++i) w.Boundary();
  EXPECT_EQ(w.steps_taken, 6u);
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
  Moved(w);
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 7u);
}

TEST(WorkerApplying, TheApplyStepWaitsForItAlsoWhereTheCoordinatorIsLongAway) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.Give(StreamDown{"gone"});
  w.Wait(Seconds(60));
  for (int i = 0; i < 5; ++i) w.Boundary();
  EXPECT_EQ(w.steps_taken, 6u);
  EXPECT_FALSE(w.Did("update overdue"));
  Moved(w);
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_FALSE(w.Did("late"));
}

TEST(WorkerApplying, SendStepBeforeTheMergeFollowsIt) {
  JobSpec spec = Overlapped();
  spec.sync.overlap_steps = 5;  // sent at step 1, merged five own steps later
  spec.sync.pace = Pace::kBalanced;
  World w(spec);
  w.Start();
  w.Steps(1);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 1"));
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 1);
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1 contributor beside"));
  w.Hear(PaceAssigned{JobId{"tiny"}, 3});  // each step advances the clock by two: to step 7
  w.Steps(5 - w.steps_taken);
  ASSERT_GE(w.core().clock_step(), 7u);
  w.Boundary();
  EXPECT_FALSE(w.Did("send skipped"));
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_TRUE(w.Did("form 0 v1"));
}

TEST(WorkerApplying, AnUpdateThatComesAtItsApplyStepIsWaitedForInPlace) {
  World w(Overlapped());
  w.Start();
  w.Steps(6);
  w.Boundary();
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 3);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
  EXPECT_FALSE(w.Did("beside")) << "training stands still for it in any case";
}

TEST(WorkerApplying, DiscardedDriftTakesTheMovedOuterCopy) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  EXPECT_TRUE(w.Did("drop contribution 0"));
  w.Boundary();
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 5u) << "what is trained from parameters that are given up would be lost";
  EXPECT_EQ(w.Count("adopt 0"), 1) << "when it joined";
  Moved(w);
  EXPECT_EQ(w.Count("adopt 0"), 2);
  EXPECT_FALSE(w.Did("resolve"));
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 6u);
}

TEST(WorkerApplying, ADeviatingReplicaIsHealedBeforeItsApplyStep) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.form_and_apply = true;
  w.snapshot = Version{1};
  Moved(w, false);
  EXPECT_TRUE(w.Did("applied 0 v1 deviant"));
  EXPECT_EQ(w.Count("fetch fragment 0"), 2);
  EXPECT_TRUE(w.Did("install 0 v1"));
  w.Steps(2);
  EXPECT_FALSE(w.Did("resolve"));
}

TEST(WorkerApplying, AnEvaluationWaitsForWhatMoves) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 9, {Version{1}}, 16});
  w.Boundary();
  EXPECT_FALSE(w.Did("evaluate 9"));
  Moved(w);
  w.Boundary();
  EXPECT_TRUE(w.Did("evaluate 9: 0+16"));
}

TEST(WorkerApplying, AnEvaluationOfTheVersionThatItLeavesIsNotMade) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 9, {Version{0}}, 16});
  w.Boundary();
  EXPECT_FALSE(w.Did("evaluate 9")) << "half of one version and half of another";
  Moved(w);
  w.Boundary();
  EXPECT_FALSE(w.Did("evaluate 9"));
  EXPECT_TRUE(w.Did("evaluation done: this worker's outer copies are already newer"));
}

TEST(WorkerApplying, EvaluationDefersLaterUpdates) {
  World w(Overlapped());
  w.Start();
  w.Steps(3);
  w.Boundary();
  w.Accept(0);
  w.evaluate = false;
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 9, {Version{0}}, 16});
  w.Publish(0, 1, {"w1"}, 3);
  w.Boundary();
  EXPECT_TRUE(w.Did("evaluate 9"));
  EXPECT_FALSE(w.Did("apply"));
}

TEST(WorkerApplying, LeavingWaitsForTheUpdateAndSendsTheRest) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.Did("exit")) << "its last two steps can be sent against version 1";
  w.form_and_apply = true;
  Moved(w);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_TRUE(w.Did("upload 0 v1 steps 2"));
}

TEST(WorkerApplying, LeavingWaitsForTheCoordinatorToSendTheRest) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w));
  w.form_and_apply = true;
  Moved(w);
  w.Give(StreamDown{"gone"});
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.Did("exit"));
  w.Connect(true);
  w.Assign({Version{1}}, 5);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_TRUE(w.Did("upload 0 v1 steps 2"));
}

TEST(WorkerApplying, AStreamThatBreaksMeanwhileSendsNothingAgain) {
  for (const bool moved : {false, true}) {
    for (const bool accepted : {false, true}) {
      SCOPED_TRACE(testing::Message() << "moved " << moved << ", accepted " << accepted);
      World w(Overlapped());
      ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate(w, accepted));
      if (moved) Moved(w);
      w.Give(StreamDown{"gone"});
      w.Connect(true, 1, 5, {{{FragmentIndex{0}, Version{0}}, ContributionFate::kUnknown}});
      EXPECT_EQ(w.Count("upload 0 v0 steps"), 1) << "the update that it is in is here";
      EXPECT_FALSE(w.Did("contribution sent again"));
      if (!moved) Moved(w);
      w.Assign({Version{1}}, 4);
      w.Steps(1);
      w.Boundary();
      EXPECT_TRUE(w.Did("resolve 0 contributor"));
    }
  }
}

}  // namespace
}  // namespace atl::worker
