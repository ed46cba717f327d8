// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/rounds.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(Grace, IsTheLargestOfItsThreeReasons) {
  EXPECT_EQ(GraceWindow({}, {}), Milliseconds(250));
  EXPECT_EQ(GraceWindow({Seconds(9), Seconds(20), Seconds(30)}, {}), Seconds(2));
  EXPECT_EQ(GraceWindow({Seconds(20)}, Seconds(10)), Seconds(5));
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
