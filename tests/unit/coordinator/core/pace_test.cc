// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/pace.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(Pace, StepsFollowTheSpeeds) {
  EXPECT_EQ(BalancedSteps(100, Milliseconds(100), Milliseconds(100)), 100u);
  EXPECT_EQ(BalancedSteps(100, Milliseconds(300), Milliseconds(100)), 33u);
  EXPECT_EQ(BalancedSteps(100, Milliseconds(101), Milliseconds(100)), 99u);
  EXPECT_EQ(BalancedSteps(30, Milliseconds(200), Milliseconds(100)), 15u);
}

TEST(Pace, IsAtLeastOneAndAtMostThePeriod) {
  EXPECT_EQ(BalancedSteps(10, Seconds(60), Milliseconds(1)), 1u);
  EXPECT_EQ(BalancedSteps(10, Milliseconds(50), Milliseconds(100)), 10u) << "faster than what passed for the fastest";
  EXPECT_EQ(BalancedSteps(1, Seconds(5), Seconds(1)), 1u);
  EXPECT_EQ(BalancedSteps(1'000'000, Seconds(3600), Seconds(3600)), 1'000'000u) << "nothing runs over";
}

TEST(Pace, SmallDifferencesChangeNothing) {
  EXPECT_FALSE(WorthChanging(100, 100));
  EXPECT_FALSE(WorthChanging(100, 88));
  EXPECT_TRUE(WorthChanging(100, 87));
  EXPECT_FALSE(WorthChanging(88, 99));
  EXPECT_TRUE(WorthChanging(33, 100));
  EXPECT_TRUE(WorthChanging(2, 1));
}

TEST(Pace, AWorkerIsWhereItsPaceHasBroughtIt) {
  const Duration most = Seconds(4), pace = Milliseconds(100);
  EXPECT_EQ(ClockPace(Seconds(10), 100), pace);
  EXPECT_EQ(StepByNow(50, Duration{}, pace, most), 50u);
  EXPECT_EQ(StepByNow(50, Seconds(2), pace, most), 70u);
  EXPECT_EQ(StepByNow(50, Milliseconds(1), pace, most), 51u) << "rounded up";
  EXPECT_EQ(StepByNow(50, Seconds(5), pace, most), 50u) << "silent";
  EXPECT_EQ(StepByNow(50, Seconds(2), Duration{}, most), 50u) << "nothing measured";
}

}  // namespace
}  // namespace atl
