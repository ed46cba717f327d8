// SPDX-License-Identifier: Apache-2.0
#include "common/base/time.h"

#include <gtest/gtest.h>

#include "common/base/mutex.h"
#include "tests/support/manual_clock.h"

namespace atl {
namespace {

TEST(Duration, Arithmetic) {
  EXPECT_EQ(Seconds(1) + Milliseconds(500), Milliseconds(1500));
  EXPECT_EQ(Seconds(1) - Milliseconds(1), Microseconds(999'000));
  EXPECT_EQ(Milliseconds(3) * 4, Milliseconds(12));
  EXPECT_EQ(Seconds(1) / 8, Nanoseconds(125'000'000));
  EXPECT_LT(Seconds(-1), Seconds(0));
  EXPECT_DOUBLE_EQ(ToSeconds(Milliseconds(250)), 0.25);
}

TEST(Instant, DifferencesAndNever) {
  const Instant t{100};
  EXPECT_EQ((t + Nanoseconds(5)) - t, Nanoseconds(5));
  EXPECT_EQ(t - Nanoseconds(1), Instant{99});
  EXPECT_LT(t, kNever);
}

TEST(SystemClock, NeverGoesBack) {
  const SystemClock clock;
  Instant last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GT(clock.WallNanos(), int64_t{1'600'000'000'000'000'000});
}

TEST(ManualClock, StaysUntilAdvanced) {
  ManualClock clock;
  const Instant start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(Seconds(2));
  EXPECT_EQ(clock.Now() - start, Seconds(2));
}

TEST(CondVar, WaitForReturnsFalseAtItsLimit) {
  Mutex mutex;
  CondVar never_notified;
  MutexLock lock(mutex);
  // A spurious wake-up returns true; it does not come a thousand times.
  int early = 0;
  while (early < 1000 && never_notified.WaitFor(mutex, Milliseconds(1))) ++early;
  EXPECT_LT(early, 1000);
}

}  // namespace
}  // namespace atl
