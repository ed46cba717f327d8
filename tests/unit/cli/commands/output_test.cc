// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "common/base/utf8.h"

namespace atl::cli {
namespace {

TEST(Human, NumbersHaveThreeDigits) {
  EXPECT_EQ(HumanNumber(0), "-");
  EXPECT_EQ(HumanNumber(7), "7");
  EXPECT_EQ(HumanNumber(999), "999");
  EXPECT_EQ(HumanNumber(1000), "1.00k");
  EXPECT_EQ(HumanNumber(42'100), "42.1k");
  EXPECT_EQ(HumanNumber(999'999), "1.00M");
  EXPECT_EQ(HumanNumber(1.5e9), "1.50G");
  EXPECT_EQ(HumanSize(0), "0 B");
  EXPECT_EQ(HumanSize(512), "512 B");
  EXPECT_EQ(HumanSize(12'300'000), "12.3 MB");
  EXPECT_EQ(HumanTime(3), "3 s");
  EXPECT_EQ(HumanTime(125), "2 m 5 s");
  EXPECT_EQ(HumanTime(3840), "1 h 4 m");
  EXPECT_EQ(HumanTime(183'600), "2 d 3 h");
  EXPECT_EQ(LossText(3.14159), "3.1416");
  EXPECT_EQ(LossText(0), "-");
}

TEST(Table, PadsByDisplayWidth) {
  Table table({"A", "NAME"});
  table.Add({"é", "x"});
  table.Add({"longer", ""});
  EXPECT_EQ(table.ToString(), "A       NAME\né       x\nlonger\n");
}

TEST(Clip, CutsByCodePoints) {
  EXPECT_EQ(Clip("abcdef", 6), "abcdef");
  EXPECT_EQ(Clip("abcdef", 4), "abc…");
  EXPECT_EQ(Clip("ééé", 2), "é…");
  EXPECT_EQ(Clip("abc", 0), "");
}

// S23.
TEST(Printable, NothingSteersTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\x7f\n"), "a?[2Jb??");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "??31m");
  EXPECT_EQ(Printable("naïve"), "naïve");
}

TEST(ExitCodes, FollowTheTable) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), 70);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 130);
}

TEST(JobState, NamesAndEnds) {
  EXPECT_EQ(StateText(v1::JOB_STATE_WAITING_FOR_WORKERS), "waiting_for_workers");
  EXPECT_TRUE(IsTerminal(v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(IsTerminal(v1::JOB_STATE_CANCELLED));
  EXPECT_FALSE(IsTerminal(v1::JOB_STATE_CLOSING));
}

}  // namespace
}  // namespace atl::cli
