// SPDX-License-Identifier: Apache-2.0
#include "cli/pending_answer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/manual_clock.h"

namespace atl::cli {
namespace {

TEST(PendingAnswer, AnAnswerThatDoesNotComeIsWaitedForUntilTheDeadline) {
  ManualClock clock;
  PendingAnswer<int> pending;
  EXPECT_FALSE(pending.WaitUntil(clock, clock.Now()));
  clock.Advance(Seconds(1));
  EXPECT_FALSE(pending.WaitUntil(clock, clock.Now() - Seconds(1)));
  pending.Set(7);
  EXPECT_TRUE(pending.WaitUntil(clock, clock.Now() - Seconds(1))) << "it is there";
  EXPECT_EQ(pending.Wait(), 7);
}

TEST(PendingAnswer, AnAnswerOfAnotherThreadEndsTheWait) {
  ManualClock clock;
  for (const std::optional<Instant> deadline : {std::optional<Instant>(), std::optional(clock.Now() + Seconds(3600))}) {
    PendingAnswer<int> pending;
    std::thread other([&pending] { pending.Set(7); });
    EXPECT_TRUE(pending.WaitUntil(clock, deadline));
    EXPECT_EQ(pending.Wait(), 7);
    other.join();
  }
}

}  // namespace
}  // namespace atl::cli
