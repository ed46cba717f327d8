// SPDX-License-Identifier: Apache-2.0
// Whom a pause concerns (S34).
#include "common/guard/call_counter.h"

#include <gtest/gtest.h>

namespace atl::guard {
namespace {

constexpr CallLimits kLimits{.peer = 100, .all = 150, .always = 10};
Instant At(int64_t milliseconds) { return Instant{} + Seconds(5) + Milliseconds(milliseconds); }

TEST(CallCounter, AFastPeerIsNotReadForTheRestOfItsSecond) {
  CallCounter counter(kLimits);
  counter.Add("a", 100, At(0));
  EXPECT_FALSE(counter.PausedUntil("a", At(1)).has_value());
  counter.Add("a", 1, At(300));
  EXPECT_EQ(counter.PausedUntil("a", At(300)), At(1000));
  EXPECT_EQ(counter.PausedUntil("a", At(999)), At(1000)) << "also for a connection that comes now";
  EXPECT_FALSE(counter.PausedUntil("b", At(999)).has_value());
  EXPECT_FALSE(counter.PausedUntil("a", At(1000)).has_value());
}

TEST(CallCounter, ManyPeersTogetherPauseThoseThatMadeMost) {
  CallCounter counter(kLimits);
  counter.Add("a", 90, At(0));
  counter.Add("b", 90, At(0));
  counter.Add("c", 10, At(0));
  EXPECT_TRUE(counter.PausedUntil("a", At(1)).has_value());
  EXPECT_TRUE(counter.PausedUntil("b", At(1)).has_value());
  EXPECT_FALSE(counter.PausedUntil("c", At(1)).has_value());
}

TEST(CallCounter, TheBurstOfOnePeerPausesNoOther) {
  CallCounter counter(kLimits);
  counter.Add("a", 100'000, At(0));
  counter.Add("b", 50, At(0));
  EXPECT_TRUE(counter.PausedUntil("a", At(1)).has_value());
  EXPECT_FALSE(counter.PausedUntil("b", At(1)).has_value());
  counter.Add("b", 30, At(2));
  EXPECT_TRUE(counter.PausedUntil("b", At(3)).has_value()) << "90 of a and 70 of b";
}

TEST(CallCounter, FewCallsOfEachPeerCountForNothing) {
  CallCounter counter(kLimits);
  for (int i = 0; i < 100; ++i) counter.Add(std::to_string(i), 10, At(0));
  counter.Add("a", 20, At(0));
  EXPECT_FALSE(counter.PausedUntil("a", At(1)).has_value());
}

}  // namespace
}  // namespace atl::guard
