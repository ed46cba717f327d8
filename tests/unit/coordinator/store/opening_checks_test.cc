// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/opening_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/base/forwarded_files.h"
#include "common/base/input_stream.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

class OpeningChecks : public testing::Test {
 protected:
  OpeningChecks() { fs::remove_all(root_); }
  ~OpeningChecks() override { fs::remove_all(root_); }
  void Put(const std::string& name, const std::string& content = "x") {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  absl::Status Ledger() { return CheckLedgerExists(*files_, DataDirectory(root_.string())); }

  const fs::path root_ = fs::path(testing::TempDir()) / ("opening_checks." + std::to_string(::getpid()));
  const std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(OpeningChecks, ANewDirectoryNeedsNoLedger) {
  fs::create_directories(root_);
  EXPECT_EQ(Ledger(), absl::OkStatus());
  Put("LOCK");
  Put("coordinator.pem");
  fs::create_directories(root_ / "events");  // a first start that was interrupted
  EXPECT_EQ(Ledger(), absl::OkStatus());
  Put("ledger.sqlite", "");
  EXPECT_EQ(Ledger(), absl::OkStatus());
}

TEST_F(OpeningChecks, FilesWithoutTheirLedgerAreRefused) {
  for (const char* name : {"jobs/j/rounds/e0000000000/f00000/v0000000001.seg", "blobs/aa/aab", "events/_fleet.jsonl",
                           "ledger.sqlite-wal"}) {
    fs::remove_all(root_);
    Put(name);
    const absl::Status missing = Ledger();
    EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << name << ": " << missing;
    EXPECT_NE(missing.message().find("ledger.sqlite is missing, but"), std::string::npos) << missing;
    for (const char* nothing : {"", "\n"}) {
      Put("ledger.sqlite", nothing);
      EXPECT_NE(Ledger().message().find("ledger.sqlite has no content, but"), std::string::npos) << Ledger();
    }
    Put("ledger.sqlite", std::string(512, 's'));
    EXPECT_EQ(Ledger(), absl::OkStatus()) << name;
  }
}

// As on FAT and some network file systems.
class WithoutLinks final : public ForwardedFiles {
 public:
  using ForwardedFiles::ForwardedFiles;
  absl::Status HardLink(const std::string&, const std::string&) override {
    return absl::FailedPreconditionError("link: Operation not permitted");
  }
};

TEST_F(OpeningChecks, AFileSystemWithoutHardLinksIsRefused) {
  Put("LOCK");
  WithoutLinks without{std::shared_ptr<Files>(MakePosixFiles())};
  const absl::Status refused = CheckHardLinks(without, DataDirectory(root_.string()));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("does not support hard links"), std::string::npos) << refused;
}

class Unwritable final : public ForwardedFiles {
 public:
  using ForwardedFiles::ForwardedFiles;
  absl::Status HardLink(const std::string& from, const std::string&) override {
    return FileError("link", from, EACCES);
  }
};

TEST_F(OpeningChecks, ADirectoryThatMayNotBeWrittenIsNotBlamedForItsLinks) {
  Put("LOCK");
  Unwritable unwritable{std::shared_ptr<Files>(MakePosixFiles())};
  const absl::Status refused = CheckHardLinks(unwritable, DataDirectory(root_.string()));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("cannot write in"), std::string::npos) << refused;
  EXPECT_EQ(refused.message().find("hard links"), std::string::npos) << refused;
}

TEST_F(OpeningChecks, TheLookAtHardLinksLeavesNothing) {
  Put("LOCK");
  Put("LOCK.link.tmp");  // of a start that was killed
  EXPECT_EQ(CheckHardLinks(*files_, DataDirectory(root_.string())), absl::OkStatus());
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(OpeningChecks, WhatBelongsToAnotherUserIsNamedAtTheStart) {
  for (const char* name : {"jobs", "blobs", "events"}) fs::create_directories(root_ / name);
  Put("ledger.sqlite");
  Put("ledger.sqlite-shm");
  const DataDirectory directory(root_.string());
  EXPECT_EQ(CheckWritable(*files_, directory), absl::OkStatus());
  for (const char* name : {"jobs", "blobs", "events", "ledger.sqlite", "ledger.sqlite-shm"}) {
    const std::string place = (root_ / name).string();
    const absl::Status refused = CheckWritable(*files_, directory, [&](const char* path, int mode) {
      EXPECT_EQ(mode, W_OK);
      errno = EACCES;
      return path == place ? -1 : 0;
    });
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(refused.message().find("cannot write to " + place + " (Permission denied)"), std::string::npos)
        << refused;
  }
}

RecoveredState LedgerWith(const std::string& job, JobState state) {
  RecoveredState ledger;
  ledger.jobs.emplace_back();
  ledger.jobs.back().job.job = {job};
  ledger.jobs.back().job.state = state;
  ledger.jobs.back().job.parameters_ready = true;
  return ledger;
}

TEST_F(OpeningChecks, ALedgerThatDoesNotKnowAJobsFilesIsRefused) {
  Log log{{.to_stderr = false}};
  const DataDirectory directory(root_.string());
  const RecoveredState other = LedgerWith("other", JobState::kSucceeded),
                       own = LedgerWith("mine", JobState::kSucceeded);
  fs::create_directories(root_ / "jobs/mine/checkpoints/000010");
  fs::create_directories(root_ / "jobs/lost+found");
  EXPECT_EQ(CheckJobFiles(*files_, directory, own, log), absl::OkStatus());
  EXPECT_TRUE(log.Recent(1).empty());
  const absl::Status refused = CheckJobFiles(*files_, directory, other, log);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("contains files of mine, but the ledger has no such job"), std::string::npos)
      << refused;
  EXPECT_EQ(log.Recent(9).size(), 1u) << "the files of 'other' are missing";
  EXPECT_FALSE(CheckJobFiles(*files_, directory, LedgerWith("other", JobState::kRunning), log).ok());
  EXPECT_EQ(log.Recent(9).size(), 1u) << "a start reports running jobs without files elsewhere";
}

TEST_F(OpeningChecks, ADataRootIsADirectory) {
  Put("file");
  EXPECT_EQ(CheckDataRoot(*files_, ""), absl::OkStatus());
  EXPECT_EQ(CheckDataRoot(*files_, root_.string()), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(CheckDataRoot(*files_, (root_ / "none").string())));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDataRoot(*files_, (root_ / "file").string())));
}

}  // namespace
}  // namespace atl
