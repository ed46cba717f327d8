// atoll ca: what a person sees of the authority.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "common/trust/secret_files.h"
#include "tests/unit/cli/commands/fake_coordinator.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Ca : public testing::Test {
 protected:
  Ca() {
    std::string name = testing::TempDir() + "/caXXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~Ca() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
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
  EXPECT_THAT(again.talk, HasSubstr("there is an authority in " + trust + " already"));
  const RunResult shown = Harness().Run({"ca", "show", trust + "/admin.pem"});
  EXPECT_EQ(shown.code, 0) << shown.talk;
  EXPECT_THAT(shown.out, HasSubstr("role         admin\nname         admin\n"));
}

TEST_F(Ca, IssueRefusesWhatWouldNotWork) {
  const std::string out = directory_ + "/w.pem";
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).talk,
              HasSubstr("make one with 'atoll ca init"));
  ASSERT_EQ(Harness().Run({"ca", "init", directory_}).code, 0);
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "root", "--name", "w", "--out", out}).talk,
              HasSubstr("'root' is not a role"));
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "W 1", "--out", out}).talk,
              HasSubstr("must be 1 to 63 of a-z"));
  EXPECT_EQ(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).code, 0);
  EXPECT_EQ(ReadCertificate(ReadIdentityFile(out)->certificate_pem)->identity, (Identity{Role::kWorker, "w", ""}));
  EXPECT_THAT(Harness().Run({"ca", "issue", directory_, "--role", "worker", "--name", "w", "--out", out}).talk,
              HasSubstr("is there already"));
}

}  // namespace
}  // namespace atl::cli
