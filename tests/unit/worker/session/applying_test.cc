// SPDX-License-Identifier: Apache-2.0
// An update is applied on the executor while the session trains; every exit cancels the application
// or waits for it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

// Eight of twelve steps overlap: sent at step 4, merged at step 12.
JobSpec Overlapped() {
  JobSpec spec = ToySpec();
  spec.sync.inner_steps = 12;
  spec.sync.overlap_steps = 8;
  return spec;
}
constexpr uint64_t kApplyStep = 12;
constexpr float kSent = 1 - 0.75f * 0.75f * 0.75f * 0.75f;

class ApplyingTest : public SessionTest {
 protected:
  // Before the apply step; the update of the send at step 4 waits for the executor.
  void TrainToTheUpdate() {
    Make(Overlapped());
    Join();
    Train(4);
    ASSERT_EQ(link_.uploads.size(), 1u);
    busy_ = true;
    Commit(0, 1, {WorkerId{"w1"}});
    ASSERT_EQ(executor_.pending(), 1u);
    ASSERT_LT(session_->core().clock_step(), kApplyStep - 1);
  }
};

TEST_F(ApplyingTest, StepsAreTakenMeanwhileAndTheMergeComesAtItsStep) {
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  const uint64_t clock = session_->core().clock_step();
  Lease();
  Turn();
  EXPECT_EQ(session_->core().clock_step(), clock + 1);
  EXPECT_EQ(session_->outer_parameters()[0], 0.0f) << "it waits for the executor";
  executor_.RunAll();
  EXPECT_NEAR(session_->outer_parameters()[0], kSent, 1e-6);
  while (session_->core().clock_step() < kApplyStep) {
    Lease();
    Turn();
    const float own = 1 - std::pow(0.75f, static_cast<float>(session_->core().clock_step()));
    ASSERT_NEAR(session_->local_parameters()[0], own, 1e-6) << "nothing is merged yet";
  }
  Turn();
  EXPECT_EQ(session_->core().clock_step(), kApplyStep + 1);
  EXPECT_NEAR(session_->local_parameters()[0], kSent + (1 - kSent) * 0.25, 1e-6) << "merged, then one step";
  EXPECT_EQ(session_->core().fragments()[0].applied.value, 1u);
}

TEST_F(ApplyingTest, WaitingThreadAppliesAtOnce) {
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  for (int i = 0; i < 20 && session_->core().clock_step() <= kApplyStep; ++i) {
    Lease();
    Turn();
  }
  EXPECT_EQ(session_->core().clock_step(), kApplyStep + 1) << "nobody has run the executor";
  EXPECT_EQ(executor_.RunAll(), 1u) << "to no effect";
  Turn();
  EXPECT_EQ(session_->core().fragments()[0].applied.value, 1u);
}

TEST_F(ApplyingTest, DiscardedDriftTakesTheNewOuterCopy) {
  for (const bool applied : {false, true}) {
    link_ = {};
    leases_ = 0;
    ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
    Post(LeaseRevoked{kJob, {LeaseId{1}}, "it was away"});
    if (applied) executor_.RunAll();  // reported after the revocation
    Turn(2);
    EXPECT_NEAR(session_->outer_parameters()[0], kSent, 1e-6);
    EXPECT_EQ(session_->local_parameters()[0], session_->outer_parameters()[0]);
    executor_.RunAll();
    Turn();
    EXPECT_EQ(session_->core().fragments()[0].applied.value, 1u);
    EXPECT_FALSE(session_->core().fragments()[0].contribution_held);
    busy_ = false;
  }
}

TEST_F(ApplyingTest, AJobThatIsTakenAwayTakesItBack) {
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  Post(Unassign{kJob, "paused"});
  Turn();
  EXPECT_EQ(session_->core().activity(), WorkerActivity::kIdle);
  EXPECT_EQ(executor_.RunAll(), 1u) << "to no effect";
  Turn();
  EXPECT_FALSE(session_->exit().has_value());
}

TEST_F(ApplyingTest, ASessionThatEndsTakesItBack) {
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  session_.reset();
  EXPECT_EQ(executor_.RunAll(), 1u) << "to no effect";
}

TEST_F(ApplyingTest, AnUpdateThatDeviatesIsHeardOf) {
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  link_.fragments.clear();
  executor_.RunAll();
  Turn();
  EXPECT_TRUE(link_.fragments.empty()) << "as published";

  Make(Overlapped());
  link_ = {};
  leases_ = 0;
  busy_ = false;
  Join();
  Train(4);
  Global(0)[0] = 7;  // differs from the update's result
  busy_ = true;
  Commit(0, 1, {WorkerId{"w1"}});
  link_.fragments.clear();
  executor_.RunAll();
  Turn();
  EXPECT_EQ(link_.fragments.count(0), 1u) << "fetched whole";
}

TEST_F(ApplyingTest, ResultDuringAStepIsHandledAfterIt) {
  std::function<void()> in_step;
  factory_.during_step = [&] {
    if (in_step) in_step();
  };
  ASSERT_NO_FATAL_FAILURE(TrainToTheUpdate());
  const size_t asked = link_.updates.size();
  bool heard = false;
  in_step = [&] {
    heard = true;
    executor_.RunAll();
    Post(UpdatePublished{kJob, {FragmentIndex{0}, Version{2}}, Digest{1, 1}, 4, {WorkerId{"w2"}}, 0});
    session_->ListenInStep();
    EXPECT_EQ(link_.updates.size(), asked + 1) << "what comes behind it is heard";
    EXPECT_EQ(Count<Applied>(), 0);
  };
  Lease();
  session_->Turn();
  ASSERT_TRUE(heard);
  in_step = nullptr;
  session_->Turn();
  EXPECT_EQ(Count<Applied>(), 1);
}

}  // namespace
}  // namespace atl
