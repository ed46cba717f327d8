// SPDX-License-Identifier: Apache-2.0
// A contribution is formed on an executor while the session trains, and every exit cancels it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

// Two of four steps overlap: sent at step 2, merged at step 4.
JobSpec Overlapped() {
  JobSpec spec = ToySpec();
  spec.sync.overlap_steps = 2;
  return spec;
}

TEST_F(SessionTest, StepsAreTakenWhileAContributionIsFormed) {
  Make(Overlapped());
  Join();
  busy_ = true;
  Train(4);
  EXPECT_TRUE(link_.uploads.empty());
  EXPECT_EQ(executor_.pending(), 1u);
  busy_ = false;
  Turn();
  ASSERT_EQ(link_.uploads.size(), 1u);
  EXPECT_EQ(link_.uploads.at(0).header.steps, 2u);
  std::vector<float> delta(layout_.elements);
  Decode(CodecKind::kFp32, *link_.uploads.at(0).bytes, delta);
  EXPECT_NEAR(delta[0], -(1 - 0.75 * 0.75), 1e-6) << "of the parameters behind step 2";
  EXPECT_NEAR(session_->local_parameters()[0], 1 - std::pow(0.75, 4), 1e-6);
}

TEST_F(SessionTest, LateFormedContributionIsMergedAsUsual) {
  Make(Overlapped());
  Join();
  busy_ = true;
  Train(4);
  busy_ = false;
  Turn();
  Commit(0, 1, {WorkerId{"w1"}});
  EXPECT_EQ(session_->core().fragments()[0].applied.value, 1u);
  EXPECT_NEAR(session_->outer_parameters()[0], 1 - 0.75 * 0.75, 1e-6);
}

TEST_F(SessionTest, DiscardedDriftCancelsForming) {
  for (const bool formed : {false, true}) {
    Make(Overlapped());
    link_ = {};
    leases_ = 0;
    Join();
    busy_ = true;
    Train(3);
    ASSERT_EQ(executor_.pending(), 1u);
    Post(LeaseRevoked{kJob, {LeaseId{1}}, "it was away"});
    if (formed) executor_.RunAll();  // reported after the revocation
    Turn();
    EXPECT_EQ(session_->local_parameters()[0], 0.0f) << "the outer copy, and no lease for a step";
    busy_ = false;
    Turn(2);
    EXPECT_TRUE(link_.uploads.empty());
    EXPECT_FALSE(session_->core().fragments()[0].contribution_held);
    const uint64_t clock = session_->core().clock_step();
    Train(clock + 4);
    ASSERT_EQ(link_.uploads.size(), 1u) << "what is trained from there on is sent";
    EXPECT_LE(link_.uploads.at(0).header.steps, 4u);
  }
}

TEST_F(SessionTest, UnassignedJobCancelsForming) {
  Make(Overlapped());
  Join();
  busy_ = true;
  Train(3);
  Post(Unassign{kJob, "paused"});
  Turn();
  EXPECT_EQ(session_->core().activity(), WorkerActivity::kIdle);
  executor_.RunAll();
  Turn();
  EXPECT_TRUE(link_.uploads.empty());
}

TEST_F(SessionTest, EndOfTheSessionCancelsForming) {
  Make(Overlapped());
  Join();
  busy_ = true;
  Train(3);
  ASSERT_EQ(executor_.pending(), 1u);
  session_.reset();
  EXPECT_EQ(executor_.RunAll(), 1u) << "to no effect";
}

TEST_F(SessionTest, LeavingSendsTheContributionBeingFormed) {
  Make(Overlapped());
  Join();
  busy_ = true;
  Train(3);
  session_->RequestLeave("SIGTERM");
  Turn(3);
  ASSERT_FALSE(session_->exit().has_value());
  busy_ = false;
  Turn();
  const ContributionHeader& last = link_.uploads.at(0).header;
  EXPECT_EQ(last.steps, 2u);
  session_->Post(worker::Event(worker::UploadEnded{last.target, last.digest, worker::UploadResult::kAccepted, ""}));
  Turn();
  EXPECT_TRUE(session_->exit().has_value());
}

}  // namespace
}  // namespace atl
