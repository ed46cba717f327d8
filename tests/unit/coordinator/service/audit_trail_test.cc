// SPDX-License-Identifier: Apache-2.0
// Audit lines are logged immediately and reach the disk in order.
#include "coordinator/service/audit_trail.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"

namespace atl {
namespace {

class AuditTrailTest : public testing::Test {
 protected:
  AuditTrailTest() {
    auto kept = AuditLog::Open(*files_, DataDirectory(root_));
    EXPECT_TRUE(kept.ok()) << kept.status();
    trail_.KeepIn(*std::move(kept), executor_);
  }
  ~AuditTrailTest() override { std::filesystem::remove_all(root_); }
  std::string Kept() { return ReadWholeFile(*files_, root_ + "/events/audit/0000000000.jsonl", 1 << 20).value_or(""); }

  const std::string root_ = testing::TempDir() + "atoll-trail-" + std::to_string(::getpid());
  std::unique_ptr<Files> files_ = MakePosixFiles();
  ManualClock clock_;
  Log log_{{.minimum = LogLevel::kError, .to_stderr = false}};
  AuditTrail trail_{log_, clock_};
  ManualExecutor executor_;
};

// S32.
TEST_F(AuditTrailTest, LinesAreKeptWhateverTheLogLeavesOut) {
  trail_.Tell(LogLevel::kInfo, {{"who", "admin/a"}, {"call", "Submit"}});
  trail_.Tell(LogLevel::kWarning, {{"who", "viewer/b"}, {"call", "Cancel"}});
  EXPECT_EQ(Kept(), "") << "nobody waits for the disk";
  EXPECT_EQ(executor_.RunAll(), 1u) << "what has come by then is written at once";
  const std::string kept = Kept();
  EXPECT_LT(kept.find(R"("who":"admin/a","call":"Submit"})"), kept.find(R"("who":"viewer/b","call":"Cancel"})"));
  EXPECT_NE(kept.find(R"("who":"viewer/b","call":"Cancel"})"), std::string::npos) << kept;
  EXPECT_TRUE(log_.Recent(10).empty());
}

TEST_F(AuditTrailTest, ALineTooManyIsCounted) {
  for (size_t i = 0; i < AuditTrail::kWaiting + 3; ++i) trail_.Tell(LogLevel::kInfo, {{"who", "x"}});
  executor_.RunAll();
  trail_.Tell(LogLevel::kInfo, {{"who", "last"}});
  executor_.RunAll();
  const std::string kept = Kept();
  EXPECT_NE(kept.find(R"(","lost":"3",)"), std::string::npos);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), static_cast<std::ptrdiff_t>(AuditTrail::kWaiting) + 1);
}

TEST_F(AuditTrailTest, FailingDiskIsLoggedOnceAndItsRecovery) {
  Log told({.to_stderr = false});
  AuditTrail trail(told, clock_);
  std::filesystem::remove_all(root_);
  auto kept = AuditLog::Open(*files_, DataDirectory(root_));
  ASSERT_TRUE(kept.ok());
  trail.KeepIn(*std::move(kept), executor_);
  std::filesystem::remove_all(root_);
  for (int i = 0; i < 3; ++i) {
    trail.Tell(LogLevel::kInfo, {{"who", "x"}});
    executor_.RunAll();
  }
  size_t failures = 0;
  for (const LogLine& line : told.Recent(100)) failures += line.event == "audit log not written" ? 1 : 0;
  EXPECT_EQ(failures, 1u);
  std::filesystem::create_directories(root_ + "/events/audit");
  trail.Tell(LogLevel::kInfo, {{"who", "y"}});
  executor_.RunAll();
  EXPECT_EQ(told.Recent(1).at(0).event, "audit log recovered");
  EXPECT_NE(Kept().find(R"("lost":"3")"), std::string::npos) << Kept();
}

}  // namespace
}  // namespace atl
