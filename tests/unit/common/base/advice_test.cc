// SPDX-License-Identifier: Apache-2.0
#include "common/base/advice.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(AdviceTest, SaysWhatToDoWhereTheSystemSpokeLast) {
  EXPECT_EQ(WithAdvice("open a.txt: No such file or directory"),
            "open a.txt: No such file or directory; check the path");
  EXPECT_EQ(WithAdvice("job: write /x: No space left on device"),
            "job: write /x: No space left on device; free disk space and try again");
}

TEST(AdviceTest, LeavesOtherSentencesAsTheyAre) {
  for (const char* sentence : {"", "no job is named x; 'atoll job list' shows them", "No such file or directory",
                               "open a: No such file or directory; make it"}) {
    EXPECT_EQ(WithAdvice(sentence), sentence);
  }
}

TEST(AdviceTest, ANameControlsNoTerminal) {
  EXPECT_EQ(WithAdvice("open a\x1b[31m.txt: No such file or directory"),
            "open a?[31m.txt: No such file or directory; check the path");
  EXPECT_EQ(WithAdvice("first\n\tsecond\r\x7f\xc2\x9b"), "first\n\tsecond????");
}

TEST(AdviceTest, PathsInCommandsAreQuotedForTheShell) {
  EXPECT_EQ(ShellWord("/srv/atoll-1/a_b.c"), "/srv/atoll-1/a_b.c");
  EXPECT_EQ(ShellWord("my data"), "'my data'");
  EXPECT_EQ(ShellWord("it's; $HOME"), "'it'\\''s; $HOME'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace atl
