// SPDX-License-Identifier: Apache-2.0
// `atoll-worker join STRING`: what the string sets, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/config/environment.h"
#include "common/config/options.h"

namespace atl {
namespace {

using testing::HasSubstr;
using testing::Not;

JoinToken Token(const std::string& name = "") {
  JoinToken token = MakeToken(Sha256{}, {})->token;
  token.coordinator = "example.org:8000";
  token.name = name;
  return token;
}

WorkerCommandLine Join(std::vector<std::string> arguments, const std::string& command = "join") {
  arguments.insert(arguments.begin(), command);
  return ParseWorkerOptions(arguments, {{"HOME", "/home/a"}}, "1.2.3", "Paris-1.example.com");
}

TEST(JoinOptions, StringSetsAddressesAndDirectory) {
  JoinToken token = Token();
  const auto line = Join({PrintJoinToken(token), "--threads=3"});
  ASSERT_TRUE(line.run.has_value()) << line.text;
  EXPECT_EQ(line.run->join, token);
  EXPECT_EQ(line.run->coordinator, "example.org:8000");
  EXPECT_EQ(line.run->coordinator_bulk, "example.org:8001");
  EXPECT_EQ(line.run->coordinator_enroll, "example.org:8003");
  EXPECT_EQ(line.run->name, "") << "from the identity";
  EXPECT_EQ(line.run->name_stem, "paris-1");
  EXPECT_EQ(line.run->cache_dir, "/home/a/.cache/atoll/paris-1-" + token.id);
  EXPECT_EQ(line.run->identity, line.run->cache_dir + "/identity.pem");
  EXPECT_EQ(line.run->threads, 3u);
  EXPECT_EQ(line.run->island.arguments, (std::vector<std::string>{"join", PrintJoinToken(token), "--threads=3"}));
  token.bulk = "b:1";
  token.enroll = "c:2";
  const auto forwarded = Join({PrintJoinToken(token)}, "check");
  ASSERT_TRUE(forwarded.check.has_value()) << forwarded.text;
  EXPECT_EQ(forwarded.check->coordinator_bulk, "b:1");
  EXPECT_EQ(forwarded.check->coordinator_enroll, "c:2");
}

TEST(JoinOptions, NameIsThatOfTheTokenOrBeginsWithItsPrefix) {
  EXPECT_EQ(Join({PrintJoinToken(Token("cpu-1"))}).run->name, "cpu-1");
  EXPECT_EQ(Join({PrintJoinToken(Token("cpu-1"))}).run->cache_dir, "/home/a/.cache/atoll/cpu-1");
  EXPECT_EQ(Join({PrintJoinToken(Token("spot-*"))}).run->name_stem, "spot-paris-1");
  const auto named = Join({PrintJoinToken(Token()), "--name=rome", "--coordinator=h", "--cache-dir=/c"});
  EXPECT_EQ(named.run->name, "rome");
  EXPECT_EQ(named.run->coordinator, "h:7070");
  EXPECT_EQ(named.run->identity, "/c/identity.pem");
}

TEST(JoinOptions, FileMayHoldTheString) {
  const std::string path = testing::TempDir() + "join_options_string";
  std::ofstream(path) << PrintJoinToken(Token()) << "\n";
  EXPECT_EQ(Join({path}).run->coordinator, "example.org:8000");
  std::remove(path.c_str());
}

// S22.
TEST(JoinOptions, WrongStringIsRefusedAndNotRepeated) {
  const std::string text = PrintJoinToken(Token());
  const auto why = [&](const std::vector<std::string>& arguments, const std::string& command = "join") {
    const WorkerCommandLine line = Join(arguments, command);
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_FALSE(line.run.has_value());
    EXPECT_THAT(line.text, Not(HasSubstr(text.substr(60, 20)))) << "part of the secret";
    return line.text;
  };
  EXPECT_THAT(why({text.substr(0, text.size() - 1)}), HasSubstr("atoll-worker join: the join token is mistyped or"));
  EXPECT_THAT(why({text.substr(1)}),
              HasSubstr("neither a join string, which begins with atoll1-, nor a readable file"));
  EXPECT_THAT(why({}), HasSubstr("the join string is missing; give it, or a file"));
  EXPECT_THAT(why({"--threads=1", text}), HasSubstr("unexpected argument 'atoll1-"));
  EXPECT_THAT(why({"--threads=1"}, text), HasSubstr("unknown command 'atoll1-"));
  EXPECT_THAT(why({text, "--join-token=/t"}), HasSubstr("--join-token and a join string cannot be combined"));
  JoinToken nowhere = Token();
  nowhere.coordinator = "";
  EXPECT_THAT(why({PrintJoinToken(nowhere)}), HasSubstr("--coordinator '' is not HOST"));
  EXPECT_THAT(Join({"--help"}).text, HasSubstr("atoll-worker join STRING [OPTIONS]"));
}

TEST(JoinOptions, TokenIsHiddenInTheArguments) {
  std::string first = "join", second = PrintJoinToken(Token()), third = "--join-token=" + second;
  const size_t length = second.size();
  char* arguments[] = {first.data(), second.data(), third.data()};
  HideInArguments(3, arguments);
  EXPECT_EQ(first, "join");
  EXPECT_EQ(second, "atoll1-" + std::string(length - 7, 'x'));
  EXPECT_EQ(third, "--join-token=" + second);
}

}  // namespace
}  // namespace atl
