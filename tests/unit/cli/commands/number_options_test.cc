// SPDX-License-Identifier: Apache-2.0
// Options with a number: the accepted texts, and the errors for all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Case {
  std::vector<std::string> command;
  std::string option, rule;
  std::vector<std::string> wrong;
};

TEST(NumberOptions, RefusalNamesOptionValueAndRange) {
  const std::vector<std::string> prepare = {"data", "prepare", "a.txt", "--out", "corpus"};
  const std::string any = "a whole number from 0 to 18446744073709551615",
                    small = "a whole number from 0 to 4294967295";
  const Case cases[] = {
      {{"list"}, "--limit", small, {"-1", "", " 1", "+1", "0x10", "1e3", "1.5", "x", "4294967296"}},
      {{"logs", "tiny"}, "--tail", small, {"-1", "", "4294967296"}},
      {{"metrics", "tiny"}, "--since-step", any, {"-1", "", "18446744073709551616"}},
      {{"data", "inspect", "corpus"}, "--sample", small, {"-1", "", "x"}},
      {prepare, "--split-seed", any, {"-1", "", "-18446744073709551614"}},
      {prepare, "--shard-tokens", "a whole number from 1 to 2147483647", {"-1", "", "0", "2147483648"}},
      {prepare, "--train-tokenizer", "a whole number from 300 to 1048576", {"-1", "", "0", "299", "1048577"}},
      {prepare, "--held-out", "at least 0 and below 1", {"", "0.5x", "1", "-0.1", "-0", "nan", "inf", "0,5"}},
      {{"token", "create"}, "--uses", "a whole number from 1 to 10000", {"-3", "", "0", "10001"}},
  };
  for (const Case& c : cases) {
    for (const std::string& value : c.wrong) {
      std::vector<std::string> arguments = c.command;
      arguments.insert(arguments.end(), {c.option, value});
      Harness harness;
      const RunResult result = harness.Run(arguments);
      EXPECT_EQ(result.code, 2) << c.option << " " << value;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.talk,
                  StartsWith("atoll: " + c.option + " is '" + value + "'; it must be " + c.rule + "\nRun "));
    }
  }
}

TEST(NumberOptions, AreReadAsDecimal) {
  Harness harness;
  EXPECT_EQ(harness.Run({"logs", "tiny", "--tail", "010"}).code, 0);
  EXPECT_EQ(harness.fake.logs_request.tail(), 10u);
  EXPECT_EQ(harness.Run({"logs", "tiny", "--tail=4294967295"}).code, 0);
  EXPECT_EQ(harness.fake.logs_request.tail(), UINT32_MAX);
  harness.Run({"token", "create", "--uses", "10000"});
  EXPECT_EQ(harness.fake.token_wanted.uses(), 10'000u);
}

TEST(NumberOptions, NeedOne) {
  EXPECT_THAT(Harness().Run({"list", "--limit="}).talk, StartsWith("atoll: --limit needs a value\n"));
}

TEST(NumberOptions, ShowTheirDefaultsInTheHelp) {
  EXPECT_THAT(Harness().Run({"data", "prepare", "--help"}).out, HasSubstr("--held-out SHARE=0.05"));
  EXPECT_THAT(Harness().Run({"data", "inspect", "--help"}).out, HasSubstr("--sample N=64"));
  EXPECT_THAT(Harness().Run({"token", "create", "--help"}).out, HasSubstr("--uses N=1"));
}

TEST(Flags, TakeNoOtherValueThanTrueAndFalse) {
  EXPECT_THAT(Harness().Run({"submit", "-", "--wait=abc"}).talk,
              StartsWith("atoll: --wait is 'abc'; it must be true, false or omitted\n"));
}

}  // namespace
}  // namespace atl::cli
