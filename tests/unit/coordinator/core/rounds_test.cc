// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/rounds.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr Instant kStart{1'000'000'000'000};

Round Gathering(std::vector<std::string> expected, std::vector<std::pair<std::string, int64_t>> accepted_at_ms) {
  Round round;
  round.opened = kStart;
  round.deadline = kStart + Seconds(20);
  for (const auto& name : expected) round.expected.insert(WorkerId{name});
  for (const auto& [name, ms] : accepted_at_ms) round.accepted[WorkerId{name}] = {{}, kStart + Milliseconds(ms)};
  return round;
}

RoundRule Rule(uint32_t minimum, uint32_t quorum) {
  return {.minimum = minimum, .quorum = quorum, .grace = Milliseconds(250)};
}

TEST(DecideRound, ClosesWhenAllExpectedHaveContributed) {
  const Round round = Gathering({"a", "b"}, {{"a", 1}, {"b", 2}});
  EXPECT_TRUE(DecideRound(round, Rule(1, 0), kStart + Milliseconds(2)).close);
  EXPECT_EQ(ReasonOf(round, Rule(1, 0), kStart + Milliseconds(2)), "all 2 expected contributions are there");
}

TEST(DecideRound, GraceRunsFromTheQuorum) {
  const Round round = Gathering({"a", "b", "c"}, {{"a", 100}, {"b", 400}});
  const auto early = DecideRound(round, Rule(1, 0), kStart + Milliseconds(649));
  EXPECT_FALSE(early.close);
  EXPECT_EQ(early.wake, kStart + Milliseconds(650));
  const auto late = DecideRound(round, Rule(1, 0), kStart + Milliseconds(650));
  EXPECT_TRUE(late.close);
  EXPECT_EQ(ReasonOf(round, Rule(1, 0), kStart + Milliseconds(650)),
            "quorum 2 of 2 and the grace window has passed; without c");
}

TEST(DecideRound, NeverBelowTheMinimumEvenWithoutExpected) {
  const auto v = DecideRound(Gathering({"a"}, {{"a", 1}}), Rule(2, 0), kStart + Seconds(19));
  EXPECT_FALSE(v.close);
  EXPECT_FALSE(v.overdue);
  EXPECT_TRUE(DecideRound(Gathering({"a"}, {{"a", 1}}), Rule(2, 0), kStart + Seconds(20)).overdue);
}

TEST(DecideRound, AnEmptyRoundNeverCloses) {
  EXPECT_FALSE(DecideRound(Gathering({}, {}), Rule(0, 0), kStart + Seconds(90)).close);
  RoundRule rule = Rule(3, 0);
  rule.finished = 7;
  EXPECT_FALSE(DecideRound(Gathering({}, {}), rule, kStart + Seconds(90)).close);
}

TEST(DecideRound, FinishedWorkersCountForTheMinimum) {
  RoundRule rule = Rule(2, 0);
  rule.finished = 1;
  EXPECT_TRUE(DecideRound(Gathering({"a"}, {{"a", 1}}), rule, kStart + Milliseconds(1)).close);
}

TEST(DecideRound, WaitsForWhatIsBeingFlushed) {
  RoundRule rule = Rule(1, 0);
  rule.flushing = 1;
  const Round round = Gathering({"a"}, {{"a", 1}});
  const auto v = DecideRound(round, rule, kStart + Seconds(1));
  EXPECT_FALSE(v.close);
  EXPECT_EQ(v.wake, kNever);
  EXPECT_EQ(ReasonOf(round, rule, kStart + Seconds(1)), "waits for a contribution that is being written");
  rule.flushing = 2;
  EXPECT_EQ(ReasonOf(round, rule, kStart + Seconds(1)), "waits for 2 contributions that are being written");
}

TEST(DecideRound, AContributionOfSomebodyUnexpectedCounts) {
  EXPECT_TRUE(DecideRound(Gathering({"a"}, {{"a", 1}, {"x", 2}}), Rule(2, 0), kStart + Milliseconds(2)).close);
}

TEST(DecideRound, IsQuietWhileItIsMerged) {
  Round round = Gathering({"a"}, {{"a", 1}});
  round.closing = true;
  const auto v = DecideRound(round, Rule(1, 0), kStart + Seconds(90));
  EXPECT_FALSE(v.close || v.overdue);
  EXPECT_EQ(v.wake, kNever);
}

TEST(Grace, IsTheLargestOfItsThreeReasonsUnderTheCap) {
  EXPECT_EQ(GraceWindow({}, {}, {}), Milliseconds(250));
  EXPECT_EQ(GraceWindow({Seconds(9), Seconds(20), Seconds(30)}, {}, {}), Seconds(2));
  EXPECT_EQ(GraceWindow({Seconds(20)}, Seconds(10), {}), Seconds(5));
  EXPECT_EQ(GraceWindow({Seconds(20)}, Seconds(10), Seconds(1)), Seconds(1));
}

TEST(Deadline, IsNeverBelowMembershipTimeoutAndGrace) {
  EXPECT_EQ(RoundDeadline({}, Seconds(20), Seconds(1), Seconds(10)), Seconds(36));
  EXPECT_EQ(RoundDeadline(Seconds(5), Seconds(20), Seconds(1), Seconds(10)), Seconds(21));
  EXPECT_EQ(RoundDeadline(Seconds(50), Seconds(20), Seconds(1), Seconds(10)), Seconds(50));
}

TEST(Products, StopAtADay) {
  EXPECT_EQ(TimesAtMostADay(Seconds(2), 3), Seconds(6));
  EXPECT_EQ(TimesAtMostADay(Seconds(3600), UINT32_MAX), Seconds(86'400));
  EXPECT_EQ(TimesAtMostADay(Duration{-5}, 3), Duration{});
}

}  // namespace
}  // namespace atl
