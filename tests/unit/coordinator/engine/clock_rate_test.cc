// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/clock_rate.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

Instant At(int64_t seconds) { return Instant{} + Seconds(seconds); }

// A job that takes `rate` steps a second from `begin` to `end`.
uint64_t Train(ClockRate& clock, int64_t begin, int64_t end, uint64_t step, uint64_t rate) {
  for (int64_t t = begin; t < end; ++t, step += rate) clock.Note(step, true, At(t));
  return step;
}

TEST(ClockRate, IsNotKnownBeforeTheClockHasMoved) {
  ClockRate clock;
  EXPECT_EQ(clock.PerSecond(10, At(0)), 0);
  clock.Note(10, true, At(0));
  EXPECT_EQ(clock.PerSecond(10, At(5)), 0);
  clock.Note(10, true, At(600));
  EXPECT_DOUBLE_EQ(clock.PerSecond(30, At(610)), 2) << "the wait for the first step does not count";
}

TEST(ClockRate, APauseDoesNotCount) {
  ClockRate clock;
  const uint64_t step = Train(clock, 0, 100, 0, 20);
  EXPECT_DOUBLE_EQ(clock.PerSecond(step, At(100)), 20);
  for (int64_t t = 100; t < 40'000; t += 1000) clock.Note(step, false, At(t));
  EXPECT_EQ(clock.PerSecond(step, At(40'000)), 0);
  const uint64_t later = Train(clock, 40'000, 40'010, step, 20);
  EXPECT_DOUBLE_EQ(clock.PerSecond(later, At(40'010)), 20);
}

TEST(ClockRate, IsThatOfTheLastQuarterOfAnHourWaitsIncluded) {
  ClockRate clock;
  uint64_t step = Train(clock, 0, 10'000, 0, 100);
  for (int period = 0; period < 100; ++period) {  // ten seconds of steps, thirty of waiting
    const int64_t begin = 10'000 + 40 * period;
    step = Train(clock, begin, begin + 10, step, 4);
    Train(clock, begin + 10, begin + 40, step, 0);
  }
  EXPECT_NEAR(clock.PerSecond(step, At(14'000)), 1, 0.05);
}

TEST(ClockRate, RestartsAfterARollback) {
  ClockRate clock;
  Train(clock, 0, 100, 0, 20);
  const uint64_t step = Train(clock, 100, 150, 500, 10);
  EXPECT_DOUBLE_EQ(clock.PerSecond(step, At(150)), 10);
}

}  // namespace
}  // namespace atl
