// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/trust/join_token.h"
#include "common/trust/secret_files.h"
#include "tests/unit/another_user.h"
#include "tests/unit/cli/commands/harness.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Ca : public testing::Test {
 protected:
  const TempDir own_;
  const std::string directory_ = own_.path();
};

TEST_F(Ca, InitMakesAnAuthorityOnceAndTheFirstAdmin) {
  const std::string trust = directory_ + "/trust";
  const RunResult made = Harness().Run({"ca", "init", trust});
  EXPECT_EQ(made.code, 0) << made.talk;
  EXPECT_EQ(made.out, trust + "/admin.pem\n");
  EXPECT_THAT(made.talk, HasSubstr(LoadAuthority(trust)->fingerprint().Hex()));
  EXPECT_THAT(made.talk, Not(HasSubstr("PRIVATE")));
  const RunResult again = Harness().Run({"ca", "init", trust});
  EXPECT_EQ(again.code, kExitRefused);
  EXPECT_THAT(again.talk,
              HasSubstr("an authority already exists in " + trust + ", and all its identities depend on it"));
  const RunResult shown = Harness().Run({"ca", "show", trust + "/admin.pem"});
  EXPECT_EQ(shown.code, 0) << shown.talk;
  EXPECT_THAT(shown.out, HasSubstr("role         admin\nname         admin\n"));
}

TEST_F(Ca, InitRefusesAWrongNameBeforeThereIsAnAuthority) {
  const std::string trust = directory_ + "/trust";
  for (const char* name : {"--name=Bad Name", "--name=-a"}) {
    const RunResult refused = Harness().Run({"ca", "init", trust, name});
    EXPECT_EQ(refused.code, kExitUsage) << name;
    EXPECT_THAT(refused.talk, HasSubstr("it must be 1 to 63 of a-z, 0-9 and -, not beginning with -"));
    EXPECT_FALSE(std::filesystem::exists(trust));
  }
  std::filesystem::create_directory(trust);
  std::ofstream(trust + "/eve.pem") << "mine";
  EXPECT_EQ(Harness().Run({"ca", "init", trust, "--name", "eve"}).code, kExitRefused);
  EXPECT_EQ(Harness().Run({"ca", "init", trust, "--name", "good"}).code, 0);
}

TEST_F(Ca, RotateAndRetireReportTheConsequences) {
  const std::string trust = directory_ + "/trust";
  ASSERT_EQ(Harness().Run({"ca", "init", trust}).code, 0);
  const std::string first = LoadAuthority(trust)->fingerprint().Hex();
  EXPECT_THAT(Harness().Run({"ca", "retire", trust}).talk, HasSubstr("has no previous authority"));
  const RunResult rotated = Harness().Run({"ca", "rotate", trust});
  EXPECT_EQ(rotated.code, 0) << rotated.talk;
  EXPECT_EQ(rotated.out, trust + "/ca.pem\n");
  const std::string second = LoadAuthority(trust)->fingerprint().Hex();
  EXPECT_NE(second, first);
  EXPECT_THAT(rotated.talk, HasSubstr("(SHA-256 " + second + ")"));
  EXPECT_THAT(rotated.talk, HasSubstr("then run: atoll ca retire " + trust));
  EXPECT_THAT(rotated.talk, Not(HasSubstr("PRIVATE")));
  EXPECT_THAT(Harness().Run({"ca", "show", trust + "/admin.pem"}).out, HasSubstr("trusts       " + first + " until "));
  ASSERT_EQ(Harness().Run({"ca", "issue", trust, "--role", "viewer", "--name", "v", "--out", trust + "/v.pem"}).code,
            0);
  const std::string shown = Harness().Run({"ca", "show", trust + "/v.pem"}).out;
  EXPECT_THAT(shown, testing::ContainsRegex("trusts +" + second + " until [^\n]*\ntrusts +" + first + " until "));

  const RunResult again = Harness().Run({"ca", "rotate", trust});
  EXPECT_EQ(again.code, kExitRefused);
  EXPECT_THAT(again.talk,
              HasSubstr("the previous authority is still trusted; stop trusting it with: atoll ca retire " + trust));
  const RunResult early = Harness().Run({"ca", "retire", trust});
  EXPECT_EQ(early.code, kExitRefused);
  EXPECT_THAT(early.talk, HasSubstr("identities of the previous authority may be in use until "));
  EXPECT_TRUE(LoadAuthority(trust)->is_rotated());
  const RunResult retired = Harness().Run({"ca", "retire", trust, "--early"});
  EXPECT_EQ(retired.code, 0) << retired.talk;
  EXPECT_FALSE(LoadAuthority(trust)->is_rotated());
  EXPECT_EQ(LoadAuthority(trust)->fingerprint().Hex(), second);
  const RunResult at_once = Harness().Run({"ca", "rotate", trust, "--retire"});
  EXPECT_EQ(at_once.code, 0) << at_once.talk;
  EXPECT_THAT(at_once.talk, HasSubstr("the previous authority is retired"));
  EXPECT_NE(LoadAuthority(trust)->fingerprint().Hex(), second);
  EXPECT_FALSE(LoadAuthority(trust)->is_rotated());
  EXPECT_EQ(Harness().Run({"ca", "rotate", directory_ + "/none"}).code, kExitRefused);
}

TEST_F(Ca, InitRefusesADirectoryOfSomebodyElse) {
  const std::string other = directory_ + "/other";
  std::filesystem::create_directory(other);
  chmod(directory_.c_str(), 0755);
  if (geteuid() != 0 || AsAnotherUser(directory_, [] { return 0; }) != 0)
    GTEST_SKIP() << "this user has only its own directories";
  EXPECT_EQ(AsAnotherUser(directory_,
                          [&other] {
                            const RunResult refused = Harness().Run({"ca", "init", other});
                            const bool said = refused.talk.find("chmod " + other) != std::string::npos;
                            return refused.code == kExitRefused && said ? 0 : 1;
                          }),
            0);
}

TEST_F(Ca, ATokenHasOneUseOrMoreAndANameThatAWorkerCanHave) {
  Harness harness;
  for (const char* uses : {"0", "10001", "99999999999999"}) {
    const RunResult refused = harness.Run({"token", "create", "--uses", uses});
    EXPECT_EQ(refused.code, kExitUsage);
    EXPECT_THAT(refused.talk,
                HasSubstr(std::string("--uses is '") + uses + "'; it must be a whole number from 1 to 10000"));
  }
  EXPECT_THAT(harness.Run({"list", "--limit", "99999999999999"}).talk,
              HasSubstr("--limit is '99999999999999'; it must be a whole number from 0 to 4294967295"));
  EXPECT_THAT(harness.Run({"token", "create", "--name=-a"}).talk, HasSubstr("--name is '-a'; it must be 1 to 63"));
  EXPECT_TRUE(harness.fake.token_wanted.role().empty()) << "the coordinator was asked";
}

TEST_F(Ca, TokensAreShownOnceAndListedWithoutSecrets) {
  Harness harness;
  const JoinToken token_made = MakeToken(Sha256{}, {})->token;
  harness.fake.token_made.set_text(PrintJoinToken(token_made));
  harness.fake.token_made.mutable_token()->set_id("0123456789abcdef");
  const RunResult made = harness.Run({"token", "create", "--uses", "3", "--lifetime", "30m", "--name", "cpu-1"});
  EXPECT_EQ(made.code, 0) << made.talk;
  JoinToken printed = token_made;
  printed.coordinator = "127.0.0.1:7070";
  EXPECT_EQ(made.out, PrintJoinToken(printed) + "\n");
  EXPECT_THAT(made.talk, Not(HasSubstr(kJoinTokenPrefix)));
  EXPECT_THAT(made.talk, HasSubstr("for this machine only: for others create one with --address HOST\n"));
  EXPECT_EQ(harness.fake.token_wanted.role(), "worker");
  EXPECT_EQ(harness.fake.token_wanted.uses(), 3u);
  EXPECT_EQ(harness.fake.token_wanted.lifetime().seconds(), 1800);
  v1::JoinToken& token = *harness.fake.tokens.add_tokens();
  token.set_id("0123456789abcdef");
  token.set_role("worker");
  token.set_uses(1);
  token.set_used(1);
  EXPECT_THAT(harness.Run({"token", "list"}).out,
              testing::ContainsRegex("0123456789abcdef  worker    any  .*0 of 1.*used up"));
  EXPECT_THAT(harness.Run({"-o", "json", "token", "list"}).out, HasSubstr("\"id\": \"0123456789abcdef\""));
  EXPECT_EQ(harness.Run({"token", "revoke", "0123456789abcdef"}).code, 0);
  EXPECT_THAT(harness.Run({"token", "create", "--lifetime", "5"}).talk, HasSubstr("--lifetime"));
}

TEST_F(Ca, JoinStringHoldsAddressesAndName) {
  Harness harness;
  harness.fake.token_made.set_text(PrintJoinToken(MakeToken(Sha256{}, {})->token));
  harness.fake.token_made.mutable_token()->set_name("cpu-1");
  const auto make = [&](const std::vector<std::string>& options) {
    std::vector<std::string> command = {"token", "create"};
    command.insert(command.end(), options.begin(), options.end());
    return harness.Run(command);
  };
  const RunResult whole = make({"--address", "[2001:db8::7]", "--bulk-address=b", "--enroll-address", "c:9"});
  const JoinToken token = *ParseJoinToken(std::string(absl::StripAsciiWhitespace(whole.out)));
  EXPECT_EQ(token.coordinator, "[2001:db8::7]:7070");
  EXPECT_EQ(token.bulk, "b:7071");
  EXPECT_EQ(token.enroll, "c:9");
  EXPECT_EQ(token.name, "cpu-1");
  EXPECT_THAT(whole.talk, Not(HasSubstr("--address HOST")));
  for (const char* option : {"--address", "--bulk-address", "--enroll-address"})
    EXPECT_THAT(make({option, "a:0"}).talk, HasSubstr(std::string("atoll: ") + option + ": 'a:0' is not HOST"));
  make({"--name-prefix=spot-", "--uses=50"});
  EXPECT_EQ(harness.fake.token_wanted.name(), "spot-*");
  EXPECT_THAT(make({"--name-prefix=Spot"}).talk, HasSubstr("--name-prefix is 'Spot'; it must be 1 to 63"));
  EXPECT_THAT(make({"--name-prefix=a", "--name=b"}).talk, HasSubstr("excludes"));
  harness.fake.token_made.set_text("atoll9-text");
  EXPECT_THAT(make({}).talk, HasSubstr("the coordinator's answer: the join token does not begin with atoll1-"));
}

TEST_F(Ca, AnIdentityIsProtectedByAPassphrase) {
  const std::string trust = directory_ + "/trust", admin = trust + "/admin.pem";
  Harness harness;
  harness.typed = {"correct horse", "correct horst"};
  const RunResult differ = harness.Run({"ca", "init", trust, "--protect"});
  EXPECT_EQ(differ.code, kExitUsage);
  EXPECT_THAT(differ.talk, HasSubstr("the two passphrases differ"));
  EXPECT_FALSE(std::filesystem::exists(trust)) << "an authority without its admin";
  harness.typed = {"correct horse", "correct horse"};
  harness.asked.clear();
  const RunResult made = harness.Run({"ca", "init", trust, "--protect"});
  EXPECT_EQ(made.code, 0) << made.talk;
  EXPECT_THAT(harness.asked, testing::ElementsAre("passphrase for " + admin + ": ", "repeat the passphrase: "));
  EXPECT_TRUE(ReadIdentityFile(admin, "correct horse").ok());
  EXPECT_EQ(ReadIdentityFile(admin).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Harness().Run({"ca", "show", admin}).out, HasSubstr("passphrase   yes\n")) << "without asking";

  const std::string file = directory_ + "/passphrase";
  std::ofstream(file) << "battery staple\nanother line\n";
  const std::vector<std::string> issue = {
      "--passphrase-file",     file,       "ca", "issue", trust, "--role", "operator", "--name", "bob", "--out",
      directory_ + "/bob.pem", "--protect"};
  chmod(file.c_str(), 0644);
  EXPECT_THAT(Harness().Run(issue).talk, HasSubstr("others may read or change " + file + ": run 'chmod 600 "));
  chmod(file.c_str(), 0600);
  EXPECT_EQ(Harness().Run(issue).code, 0);
  EXPECT_TRUE(ReadIdentityFile(directory_ + "/bob.pem", "battery staple").ok());
  const RunResult worker = Harness().Run(
      {"ca", "issue", trust, "--role", "worker", "--name", "w", "--out", directory_ + "/w.pem", "--protect"});
  EXPECT_EQ(worker.code, kExitUsage);
  EXPECT_THAT(worker.talk, HasSubstr("--protect works only for people's identities"));
}

TEST_F(Ca, ExistingIdentityIsProtectedOnce) {
  ASSERT_EQ(Harness().Run({"ca", "init", directory_}).code, 0);
  const std::string admin = directory_ + "/admin.pem", before = ReadIdentityFile(admin)->key_pem;
  EXPECT_THAT(Harness().Run({"ca", "show", admin}).out, HasSubstr("passphrase   no\n"));
  Harness harness;
  harness.typed = {"short"};
  EXPECT_THAT(harness.Run({"ca", "protect", admin}).talk, HasSubstr("8 to 1023 bytes, and this one has 5"));
  EXPECT_THAT(Harness().Run({"ca", "protect", admin}).talk,
              HasSubstr("there is no terminal: give a file that contains it with --passphrase-file"));
  EXPECT_EQ(ReadIdentityFile(admin)->key_pem, before);
  harness.typed = {"correct horse", "correct horse"};
  EXPECT_EQ(harness.Run({"ca", "protect", admin}).code, 0);
  EXPECT_EQ(ReadIdentityFile(admin, "correct horse")->key_pem, before);
  EXPECT_EQ(harness.Run({"ca", "protect", admin}).code, kExitRefused);
}

TEST_F(Ca, APassphraseIsAskedForOnceAndOnlyWhereThereIsOne) {
  ASSERT_EQ(Harness().Run({"ca", "init", directory_}).code, 0);
  const std::string admin = directory_ + "/admin.pem";
  std::vector<std::string> asked, typed = {"wrong horse", "correct horse"};
  Passphrases passphrases("", [&](const std::string& prompt) -> absl::StatusOr<std::string> {
    asked.push_back(prompt);
    return std::exchange(typed, {typed.begin() + 1, typed.end()}).front();
  });
  EXPECT_EQ(*passphrases.Of(admin), "");
  EXPECT_EQ(*passphrases.Of(directory_ + "/none.pem"), "");
  EXPECT_TRUE(asked.empty());
  const absl::Status device = passphrases.Of("/dev/null").status();  // like a pipe, it cannot be read twice
  EXPECT_EQ(ExitCodeOf(device), kExitUsage);
  EXPECT_THAT(device.message(), HasSubstr("/dev/null is not a regular file"));
  ASSERT_TRUE(WriteIdentityFile(admin, *ReadIdentityFile(admin), "correct horse").ok());
  const absl::Status wrong = passphrases.Of(admin).status();
  EXPECT_EQ(ExitCodeOf(wrong), kExitAuth);
  EXPECT_THAT(wrong.message(), HasSubstr(admin + ": the passphrase does not open the private key"));
  EXPECT_EQ(*passphrases.Of(admin), "correct horse");
  EXPECT_EQ(*passphrases.Of(admin), "correct horse");
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(Ca, ANameIsRevokedAndListed) {
  Harness harness;
  const RunResult revoked = harness.Run({"ca", "revoke", "paris-1"});
  EXPECT_EQ(revoked.code, 0) << revoked.talk;
  EXPECT_THAT(revoked.talk, HasSubstr("every certificate of 'paris-1' issued up to 2027-01-15 08:00:00 UTC is "
                                      "refused"));
  EXPECT_THAT(revoked.talk, HasSubstr("no worker has that name here: unless it is a person's, check its spelling"));
  harness.fake.workers.add_workers()->set_name("workers/paris-1");
  EXPECT_THAT(harness.Run({"ca", "revoke", "paris-1"}).talk, Not(HasSubstr("spelling")));
  v1::Revocation& revocation = *harness.fake.revocations.add_revocations();
  revocation.set_name("paris-1");
  revocation.mutable_revoke_time()->set_seconds(1'800'000'000);
  revocation.set_revoked_by("admin/ops");
  harness.fake.revocations.set_next_page_token("paris-1");
  harness.fake.more_revocations.add_revocations()->set_name("rome-2");
  const std::string listed = harness.Run({"ca", "revocations"}).out;
  EXPECT_THAT(listed, testing::ContainsRegex("paris-1 +2027-01-15 08:00:00 UTC  admin/ops\n"));
  EXPECT_THAT(listed, HasSubstr("rome-2"));
  EXPECT_THAT(harness.Run({"-o", "json", "ca", "revocations"}).out, HasSubstr("\"revoked_by\": \"admin/ops\""));
  harness.fake.error = absl::PermissionDeniedError("the call needs the role admin");
  EXPECT_EQ(harness.Run({"ca", "revoke", "paris-1"}).code, kExitAuth);
}

TEST_F(Ca, EnrolReportsTheTokensFault) {
  const std::vector<std::string> command = {
      "enroll", "--at", "127.0.0.1:1", "--join-token",         directory_ + "/token",
      "--name", "bob",  "--out",       directory_ + "/bob.pem"};
  EXPECT_THAT(Harness().Run(command).talk, HasSubstr("the join token's file"));
  std::ofstream(directory_ + "/token") << "atoll1-mistyped\n";
  EXPECT_THAT(Harness().Run(command).talk, HasSubstr("mistyped or incomplete"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/bob.pem"));
  JoinToken token = MakeToken(Sha256{}, {})->token;
  std::ofstream(directory_ + "/token") << PrintJoinToken(token);
  const std::vector<std::string> unaddressed = {"enroll", "--join-token", directory_ + "/token",  "--name",
                                                "bob",    "--out",        directory_ + "/bob.pem"};
  EXPECT_THAT(Harness().Run(unaddressed).talk, HasSubstr("--at: "));
  token.coordinator = "127.0.0.1:1";
  std::ofstream(directory_ + "/token") << PrintJoinToken(token);
  EXPECT_THAT(Harness().Run(unaddressed).talk, HasSubstr("127.0.0.1:4"));
}

TEST_F(Ca, InvalidAddressIsReportedWithItsOption) {
  std::ofstream(directory_ + "/token") << PrintJoinToken(MakeToken(Sha256{}, {})->token);
  for (const char* address : {"http://a:7073", "::1:7073", "foo:"}) {
    const RunResult enrolled = Harness().Run({"enroll", "--at", address, "--join-token", directory_ + "/token",
                                              "--name", "bob", "--out", directory_ + "/bob.pem"});
    EXPECT_THAT(enrolled.talk, HasSubstr(absl::StrCat("--at: '", address, "' is not HOST or HOST:PORT")));
  }
  EXPECT_THAT(Harness().Run({"doctor", "--bulk-endpoint", "http://a:7071"}).talk,
              HasSubstr("--bulk-endpoint 'http://a:7071' is not HOST or HOST:PORT"));
}

TEST_F(Ca, EnrolKeepsTheTokenWhereTheFileCannotBeWritten) {
  std::ofstream(directory_ + "/token") << PrintJoinToken(MakeToken(Sha256{}, {})->token) << "\n";
  const RunResult tried = Harness().Run({"enroll", "--at", "127.0.0.1:1", "--join-token", directory_ + "/token",
                                         "--name", "bob", "--out", directory_ + "/nowhere/bob.pem"});
  EXPECT_THAT(tried.talk,
              HasSubstr("the join token was not sent, since the identity's file cannot be written: create " +
                        directory_ + "/nowhere/bob.pem"));
  EXPECT_THAT(tried.talk, testing::EndsWith("No such file or directory; check the path\n"));
}

TEST_F(Ca, EnrolGivesAdviceIfNothingListens) {
  std::ofstream(directory_ + "/token") << PrintJoinToken(MakeToken(Sha256{}, {})->token) << "\n";
  const RunResult tried = Harness().Run({"enroll", "--at", "127.0.0.1:1", "--join-token", directory_ + "/token",
                                         "--name", "bob", "--out", directory_ + "/bob.pem"});
  EXPECT_THAT(tried.talk,
              HasSubstr("Connection refused; check that the coordinator runs with --trust, that this is its "
                        "enrolment port"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/bob.pem"));
}

TEST_F(Ca, IssueRefusesWhatWouldNotWork) {
  const std::string out = directory_ + "/w.pem";
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).talk,
              HasSubstr("create one with: atoll ca init"));
  ASSERT_EQ(Harness().Run({"ca", "init", directory_}).code, 0);
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "root", "--name", "w", "--out", out}).talk,
              HasSubstr("'root' is not a role"));
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "W 1", "--out", out}).talk,
              HasSubstr("must be 1 to 63 of a-z"));
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name=-a", "--out", out}).talk,
              HasSubstr("not beginning with -"));
  EXPECT_EQ(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).code, 0);
  EXPECT_EQ(ReadCertificate(ReadIdentityFile(out)->certificate_pem)->identity, (Identity{Role::kWorker, "w", ""}));
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).talk,
              HasSubstr("already exists"));
}

}  // namespace
}  // namespace atl::cli
