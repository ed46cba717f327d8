// SPDX-License-Identifier: Apache-2.0
// The commands' messages when there is nothing to audit, and the form of their reports.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "coordinator/audit/audit_command.h"
#include "coordinator/audit/findings.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/reading_lock.h"
#include "coordinator/store/sqlite_ledger.h"
#include "tests/unit/another_user.h"

namespace atl::audit {
namespace {

using testing::HasSubstr;

class AuditCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = (std::filesystem::temp_directory_path() / "atoll-audit-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void MakeLedger() {
    const auto ledger = OpenSqliteLedger(directory_ + "/ledger.sqlite");
    ASSERT_TRUE(ledger.ok() && (*ledger)->Recover().ok());
  }
  int Run(bool replay = false, bool json = false) {
    out_.str("");
    err_.str("");
    return RunAudit({replay, directory_, json}, out_, err_);
  }
  std::string directory_;
  std::ostringstream out_, err_;
};

TEST_F(AuditCommandTest, AnEmptyStateIsWell) {
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  EXPECT_EQ(Run(), kExitWell);
  EXPECT_THAT(out_.str(), HasSubstr("all is well"));
  EXPECT_EQ(Run(true), kExitWell);
  EXPECT_THAT(out_.str(), HasSubstr("rounds held: 0"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/LOCK"));  // nothing is created
}

TEST_F(AuditCommandTest, NoStateDirectoryIsOneSentence) {
  EXPECT_EQ(Run(), kExitNoAudit);
  EXPECT_THAT(err_.str(), HasSubstr("is no state directory, or its ledger is lost"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(AuditCommandTest, SoIsAPathThatIsNoDirectory) {
  const std::string state = directory_;
  for (const std::string& path : {state + "/nowhere", state + "/file"}) {
    std::ofstream(state + "/file") << "text";
    directory_ = path;
    EXPECT_EQ(Run(), kExitNoAudit);
    EXPECT_THAT(err_.str(), HasSubstr("there is no directory " + path + "; name a coordinator's --state-dir"));
    directory_ = state;
  }
}

TEST_F(AuditCommandTest, AStateInUseIsRefusedWithTheProcess) {
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  const auto lock = LockDirectory(DataDirectory(directory_));
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(Run(), kExitNoAudit);
  EXPECT_THAT(err_.str(), HasSubstr("is in use by process " + std::to_string(::getpid())));
}

// The process named in LOCK has ended and its number may be reused: the message must not ask to
// stop it.
TEST_F(AuditCommandTest, ACoordinatorIsToldToWaitForReaders) {
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  std::ofstream(directory_ + "/LOCK") << "1";
  const auto reader = LockForReading(DataDirectory(directory_));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::Status refused = LockDirectory(DataDirectory(directory_)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is being read by 'atoll-coordinator verify', 'replay'"));
}

// A leftover copy is a whole ledger; the next audit would add another.
TEST_F(AuditCommandTest, WhatAKilledOneLeftIsRemoved) {
  namespace fs = std::filesystem;
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  const fs::path left = fs::temp_directory_path() / ("atoll-audit-left" + std::to_string(::getpid()));
  const fs::path fresh = fs::temp_directory_path() / ("atoll-audit-new" + std::to_string(::getpid()));
  for (const fs::path& path : {left, fresh}) {
    fs::create_directory(path);
    std::ofstream(path / "ledger.sqlite") << "a copy";
  }
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(Run(), kExitWell);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh)) << "somebody may be making it";
  fs::remove_all(fresh);
}

TEST_F(AuditCommandTest, AWriteProtectedCopyIsReadByAnybody) {
  using std::filesystem::perms;
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  std::filesystem::permissions(directory_ + "/ledger.sqlite",
                               perms::owner_read | perms::group_read | perms::others_read);
  std::filesystem::permissions(directory_, perms(0755));
  const int told = AsAnotherUser(directory_, [this] { return Run() == kExitWell && Run(true) == kExitWell ? 0 : 1; });
  if (told < 0) GTEST_SKIP() << "no other user than root can be tried here";
  EXPECT_EQ(told, 0);
}

TEST_F(AuditCommandTest, DamageIsExit65AndJson) {
  ASSERT_NO_FATAL_FAILURE(MakeLedger());
  const std::string name(64, 'a');
  std::filesystem::create_directories(directory_ + "/blobs/aa");
  std::ofstream(directory_ + "/blobs/aa/" + name) << "not it";
  EXPECT_EQ(Run(false, true), kExitDamage);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["command"], "verify");
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["damages"], 1);
  EXPECT_EQ(json["damage"][0]["file"], directory_ + "/blobs/aa/" + name);
  EXPECT_EQ(json["damage"][0]["offset"], 0);
  EXPECT_THAT(json["damage"][0]["way_out"], HasSubstr("backup"));
  EXPECT_EQ(json["counts"]["stored files"], 1);
}

TEST(Report, ListsAreBounded) {
  Report report("verify", "/state");
  for (size_t i = 0; i < Report::kKept + 5; ++i) report.Damage({"f", i, "", "broken", "mend"});
  EXPECT_EQ(report.damage().size(), Report::kKept);
  EXPECT_THAT(report.Text(), HasSubstr("and 5 more"));
}

}  // namespace
}  // namespace atl::audit
