// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/read_fairness.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

const Instant kAsked = Instant{} + Seconds(100);

// The longest hold within `time`, while the ledger never catches up.
Duration LongestWithin(Duration time, Duration most) {
  ReadFairness hold;
  Duration longest{};
  Instant since = kNever;
  for (Instant now = kAsked; now < kAsked + time; now = now + Milliseconds(5)) {
    if (!hold.Holds(now, kAsked, most)) {
      since = kNever;
    } else {
      since = std::min(since, now);
      longest = std::max(longest, now + Milliseconds(5) - since);
    }
  }
  return longest;
}

TEST(ReadFairness, GrowsToTheMost) {
  EXPECT_EQ(LongestWithin(Seconds(1), Seconds(2)), ReadFairness::kFirst);
  EXPECT_EQ(LongestWithin(Seconds(60), Seconds(2)), Seconds(2));
  EXPECT_EQ(LongestWithin(Seconds(60), Milliseconds(125)), Milliseconds(125));
}

TEST(ReadFairness, WithoutWaitingReadsNothingPauses) { EXPECT_FALSE(ReadFairness().Holds(kAsked, kNever, Seconds(2))); }

// A worker was heard at least one interval before the hold begins, so it is not lost after the
// hold.
TEST(ReadFairness, TakesNoWorkerForLost) {
  EXPECT_EQ(ReadFairness::Longest(Seconds(2), Seconds(20)), Seconds(2));
  EXPECT_EQ(ReadFairness::Longest(Milliseconds(10), Seconds(20)), ReadFairness::kFirst);
  EXPECT_EQ(ReadFairness::Longest(Milliseconds(9999), Seconds(20)), Milliseconds(2500));
  EXPECT_EQ(ReadFairness::Longest(Milliseconds(499), Seconds(1)), Milliseconds(125));
}

}  // namespace
}  // namespace atl
