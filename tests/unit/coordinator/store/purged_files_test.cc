// SPDX-License-Identifier: Apache-2.0
// Purging deletes files from submissions only if no remaining job names them.
#include "coordinator/store/purged_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {
namespace {

class PurgedFilesTest : public testing::Test {
 protected:
  // Stores a file with this content; returns its name.
  Sha256 Stored(const std::string& content) {
    const Sha256 sha256 = Sha256Of(AsBytes(content));
    EXPECT_TRUE(disk_.MakeDirectory(DirectoryOf(directory_.BlobPath(sha256))).ok());
    EXPECT_TRUE((*disk_.OpenForAppend(directory_.BlobPath(sha256)))->Append(AsBytes(content)).ok());
    return sha256;
  }
  bool Has(const Sha256& sha256) const { return disk_.Exists(directory_.BlobPath(sha256)); }
  // A job in the ledger with a manifest, initial weights, a tokenizer and a task.
  void Job(JobState state, bool parameters_ready, const std::vector<Sha256>& named) {
    RecoveredJob job;
    job.job.job = {std::string(1, static_cast<char>('a' + state_.jobs.size()))};
    job.job.state = state;
    job.job.parameters_ready = parameters_ready;
    job.job.spec.data.corpora = {{.name = "text", .manifest = named[0]}};
    job.job.spec.init.safetensors = {named[1]};
    job.job.spec.data.tokenizer_files = {named[2]};
    job.job.spec.evaluation.tasks = {{.name = "task", .file = named[3]}};
    state_.jobs.push_back(std::move(job));
  }
  DroppedFiles Drop() { return DropFilesOfPurgedJobs(disk_, directory_, state_, log_); }

  SimDisk disk_;
  const DataDirectory directory_{"/data"};
  RecoveredState state_;
  Log log_{{.to_stderr = false}};
};

TEST_F(PurgedFilesTest, GoWhereNoOtherJobNamesThem) {
  const std::vector<Sha256> own = {Stored("manifest"), Stored("weights"), Stored("tokenizer"), Stored("task")};
  const Sha256 shared = Stored("shared"), unnamed = Stored("uploaded for a job to come");
  Job(JobState::kCancelled, false, own);
  Job(JobState::kFailed, false, {own[0], shared, own[2], own[3]});
  Job(JobState::kSucceeded, true, {shared, shared, shared, shared});
  const DroppedFiles dropped = Drop();
  EXPECT_EQ(dropped.files, 4u);
  EXPECT_EQ(dropped.bytes, std::string("manifestweightstokenizertask").size());
  for (const Sha256& file : own) EXPECT_FALSE(Has(file));
  EXPECT_TRUE(Has(shared) && Has(unnamed));
  EXPECT_EQ(Drop().files, 0u) << "they are gone already";
}

TEST_F(PurgedFilesTest, StayOfJobsThatRunOrHaveTheirParameters) {
  const std::vector<Sha256> own = {Stored("manifest"), Stored("weights"), Stored("tokenizer"), Stored("task")};
  for (const auto& [state, ready] : {std::pair{JobState::kPending, false},
                                     {JobState::kRunning, true},
                                     {JobState::kSucceeded, true},
                                     {JobState::kCancelled, true}}) {
    state_.jobs.clear();
    Job(state, ready, own);
    EXPECT_EQ(Drop().files, 0u);
  }
  for (const Sha256& file : own) EXPECT_TRUE(Has(file));
}

TEST_F(PurgedFilesTest, UnremovableFileStaysAndOthersAreRemoved) {
  const std::vector<Sha256> own = {Stored("manifest"), Stored("weights"), Stored("tokenizer"), Stored("task")};
  Job(JobState::kCancelled, false, own);
  disk_.FailAt(0, SimDisk::Fault::kFails);
  EXPECT_EQ(Drop().files, 3u);
  EXPECT_EQ(std::count_if(own.begin(), own.end(), [this](const Sha256& file) { return Has(file); }), 1);
  EXPECT_EQ(Drop().files, 1u);
}

}  // namespace
}  // namespace atl
