// SPDX-License-Identifier: Apache-2.0
#include "common/plan/paced_clock.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(PacedClock, AtTheFullPaceEachStepIsOne) {
  PacedClock clock(10);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(clock.Advance(), 1u);
  EXPECT_EQ(clock.StepsFor(0), 0u);
  EXPECT_EQ(clock.StepsFor(7), 7u);
}

TEST(PacedClock, OwnStepsCarryItOnByAPeriod) {
  for (const uint32_t period : {1u, 7u, 30u, 100u}) {
    for (uint32_t own = 1; own <= period; ++own) {
      PacedClock clock(period);
      clock.SetOwnSteps(own);
      for (int periods = 0; periods < 3; ++periods) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < own; ++i) {
          const uint32_t advance = clock.Advance();
          EXPECT_GE(advance, period / own);
          EXPECT_LE(advance, (period + own - 1) / own);
          sum += advance;
        }
        ASSERT_EQ(sum, period) << own << " of " << period;
      }
    }
  }
}

// StepsFor against counting, from every phase of the clock.
TEST(PacedClock, SaysHowManyStepsReachAGoal) {
  for (const uint32_t own : {1u, 3u, 4u, 9u, 10u}) {
    PacedClock clock(10);
    clock.SetOwnSteps(own);
    for (uint32_t phase = 0; phase < own; ++phase) {
      for (uint64_t goal = 0; goal <= 35; ++goal) {
        PacedClock counted = clock;
        uint64_t steps = 0;
        for (uint64_t at = 0; at < goal; ++steps) at += counted.Advance();
        ASSERT_EQ(clock.StepsFor(goal), steps) << own << " of 10, phase " << phase << ", goal " << goal;
      }
      clock.Advance();
    }
  }
}

TEST(PacedClock, StaysWithinItsBounds) {
  PacedClock clock(10);
  clock.SetOwnSteps(0);
  EXPECT_EQ(clock.own_steps(), 1u);
  EXPECT_EQ(clock.Advance(), 10u);
  clock.SetOwnSteps(11);
  EXPECT_EQ(clock.own_steps(), 10u);
  EXPECT_EQ(clock.Advance(), 1u);
  PacedClock longest(kLongestPeriodSteps);
  longest.SetOwnSteps(kLongestPeriodSteps - 1);
  EXPECT_EQ(longest.StepsFor(uint64_t{1} << 40), (uint64_t{1} << 40) - (uint64_t{1} << 40) / kLongestPeriodSteps);
}

// A change in mid-period neither sets the clock back nor advances it by more than one step.
TEST(PacedClock, ChangesInMidPeriod) {
  PacedClock clock(12);
  clock.SetOwnSteps(5);
  uint64_t sum = clock.Advance() + clock.Advance();  // 24 / 5
  EXPECT_EQ(sum, 4u);
  clock.SetOwnSteps(3);
  sum += clock.Advance() + clock.Advance();
  EXPECT_EQ(sum, 12u);
}

}  // namespace
}  // namespace atl
