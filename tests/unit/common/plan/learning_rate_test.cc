// SPDX-License-Identifier: Apache-2.0
#include "common/plan/learning_rate.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

InnerOptimizerSpec Inner(ScheduleKind kind, uint64_t warmup, uint64_t total, double final_ratio) {
  InnerOptimizerSpec inner;
  inner.learning_rate = 2.0;
  inner.schedule.kind = kind;
  inner.schedule.warmup_steps = warmup;
  inner.schedule.total_steps = total;
  inner.schedule.final_ratio = final_ratio;
  return inner;
}

TEST(LearningRate, WarmsUpFromAShareToThePeak) {
  const auto inner = Inner(ScheduleKind::kConstant, 4, 100, 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 1), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 3), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 4), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 1000), 2.0);
}

TEST(LearningRate, CosineFallsToItsFinalValueAndStays) {
  const auto inner = Inner(ScheduleKind::kCosine, 10, 110, 0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 10), 2.0);
  EXPECT_NEAR(LearningRateAt(inner, 60), 2.0 * (0.1 + 0.9 * 0.5), 1e-12);
  EXPECT_NEAR(LearningRateAt(inner, 110), 0.2, 1e-12);
  EXPECT_NEAR(LearningRateAt(inner, 100000), 0.2, 1e-12);
}

TEST(LearningRate, LinearFallsInALine) {
  const auto inner = Inner(ScheduleKind::kLinear, 0, 100, 0.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 0), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 25), 1.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 100), 0.0);
}

TEST(LearningRate, WsdIsStableThenDecays) {
  auto inner = Inner(ScheduleKind::kWsd, 10, 100, 0.5);
  inner.schedule.decay_steps = 20;
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 10), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 80), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 90), 1.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 100), 1.0);
  inner.schedule.decay_steps = 0;  // a fifth of the total
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 80), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(inner, 90), 1.5);
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  for (const auto kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear, ScheduleKind::kWsd}) {
    const auto inner = Inner(kind, 7, 50, 0.1);
    for (uint64_t s = 7; s < 60; ++s) EXPECT_LE(LearningRateAt(inner, s + 1), LearningRateAt(inner, s));
    for (uint64_t s = 0; s < 60; ++s) EXPECT_GT(LearningRateAt(inner, s), 0);
  }
}

TEST(LearningRate, AWarmUpAsLongAsTheScheduleIsAllowed) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Inner(ScheduleKind::kCosine, 10, 10, 0.1), 9), 2.0);
  EXPECT_NEAR(LearningRateAt(Inner(ScheduleKind::kCosine, 10, 10, 0.1), 11), 0.2, 1e-12);
}

TEST(LearningRate, AScheduleThatDoesNotEndWithTheJobIsReported) {
  JobSpec spec;
  spec.stop.inner_steps = 300;
  spec.inner = Inner(ScheduleKind::kCosine, 10, 100, 0.1);
  EXPECT_NE(ScheduleMismatch(spec).find("stays at its final value for the 200 steps"), std::string::npos)
      << ScheduleMismatch(spec);
  spec.stop.inner_steps = 80;
  EXPECT_NE(ScheduleMismatch(spec).find("ends the job at step 80, before"), std::string::npos)
      << ScheduleMismatch(spec);
  spec.stop.inner_steps = 100;
  EXPECT_EQ(ScheduleMismatch(spec), "");
  spec.stop.inner_steps = 300;
  spec.inner.schedule.kind = ScheduleKind::kConstant;
  EXPECT_EQ(ScheduleMismatch(spec), "") << "it has no end";
}

TEST(LearningRate, AWarmUpThatOutlastsTheJobIsReported) {
  JobSpec spec;
  spec.stop.inner_steps = 60;
  for (const auto kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear, ScheduleKind::kWsd}) {
    spec.inner = Inner(kind, 60, 1000, 0.1);
    EXPECT_NE(ScheduleMismatch(spec).find("ends the job at step 60, while the learning rate still rises"),
              std::string::npos)
        << ScheduleMismatch(spec);
    spec.inner.schedule.warmup_steps = 59;
    EXPECT_EQ(ScheduleMismatch(spec).find("rises"), std::string::npos) << ScheduleMismatch(spec);
    spec.inner.schedule.warmup_steps = 0;
    EXPECT_EQ(ScheduleMismatch(spec).find("rises"), std::string::npos) << ScheduleMismatch(spec);
  }
}

TEST(JoinRamp, RisesToOneAndStays) {
  EXPECT_DOUBLE_EQ(JoinRamp(0, 4), 0.25);
  EXPECT_DOUBLE_EQ(JoinRamp(3, 4), 1.0);
  EXPECT_DOUBLE_EQ(JoinRamp(400, 4), 1.0);
  EXPECT_DOUBLE_EQ(JoinRamp(0, 0), 1.0);
}

}  // namespace
}  // namespace atl
