// SPDX-License-Identifier: Apache-2.0
// When passes are launched, recorded, proved, replayed and abandoned.
#include "worker/train/pass_plan.h"

#include "gtest/gtest.h"

namespace atl {
namespace {

constexpr PassShape kOne{4, 33, 0.25}, kOther{2, 33, 0.25};

// Steps of `shape` until one is to be proved.
void Warm(PassPlan& plan, const PassShape& shape) {
  for (uint32_t step = 0; step < PassPlan::kWarmSteps; ++step) ASSERT_EQ(plan.Next(shape), PassMode::kLaunch);
  ASSERT_EQ(plan.Next(shape), PassMode::kProve);
}

TEST(PassPlan, WarmsProvesAndPlays) {
  PassPlan plan{absl::OkStatus()};
  Warm(plan, kOne);
  plan.Proved(absl::OkStatus());
  for (int step = 0; step < 5; ++step) EXPECT_EQ(plan.Next(kOne), PassMode::kPlay);
  EXPECT_TRUE(plan.refused().ok());
}

TEST(PassPlan, UnrecordablePassIsLaunched) {
  PassPlan plan{absl::FailedPreconditionError("an island")};
  for (int step = 0; step < 10; ++step) EXPECT_EQ(plan.Next(kOne), PassMode::kLaunch);
  EXPECT_EQ(plan.refused().message(), "an island");
}

TEST(PassPlan, ARecordingThatDiffersOrFailsIsTheLast) {
  for (const bool proved : {false, true}) {
    PassPlan plan{absl::OkStatus()};
    Warm(plan, kOne);
    const absl::Status why = absl::InternalError("another loss");
    plan.Proved(proved ? absl::OkStatus() : why);
    if (proved) {
      EXPECT_EQ(plan.Next(kOne), PassMode::kPlay);
      plan.Failed(why);
    }
    EXPECT_EQ(plan.refused(), why);
    for (int step = 0; step < 10; ++step) EXPECT_EQ(plan.Next(kOne), PassMode::kLaunch);
  }
}

TEST(PassPlan, AnotherShapeRestartsTheRecording) {
  PassPlan plan{absl::OkStatus()};
  EXPECT_EQ(plan.Next(kOne), PassMode::kLaunch);
  Warm(plan, kOther);
  plan.Proved(absl::OkStatus());
  EXPECT_EQ(plan.Next(kOther), PassMode::kPlay);
  for (const PassShape& shape : {PassShape{3, 33, 0.25}, PassShape{2, 34, 0.25}, PassShape{2, 33, 0.5}, kOther}) {
    EXPECT_EQ(plan.Next(shape), PassMode::kLaunch) << shape.sequences << " " << shape.length << " " << shape.scale;
  }
}

// A step that was interrupted while proving a recording: the next step starts to warm up again.
TEST(PassPlan, AProofWithoutAVerdictIsNone) {
  PassPlan plan{absl::OkStatus()};
  Warm(plan, kOne);
  Warm(plan, kOne);
  plan.Proved(absl::OkStatus());
  EXPECT_EQ(plan.Next(kOne), PassMode::kPlay);
}

TEST(PassPlan, ShapesThatComeAndGoAreNotRecordedForEver) {
  PassPlan plan{absl::OkStatus()};
  for (uint32_t recording = 0; recording < PassPlan::kMostRecordings; ++recording) {
    Warm(plan, recording % 2 == 0 ? kOne : kOther);
    plan.Proved(absl::OkStatus());
  }
  for (uint32_t step = 0; step < PassPlan::kWarmSteps; ++step) EXPECT_EQ(plan.Next({1, 33, 1}), PassMode::kLaunch);
  EXPECT_TRUE(plan.refused().ok());
  EXPECT_EQ(plan.Next({1, 33, 1}), PassMode::kLaunch);
  EXPECT_EQ(plan.refused().message(), "steps had another shape 4 times, but a recording has one shape");
}

}  // namespace
}  // namespace atl
