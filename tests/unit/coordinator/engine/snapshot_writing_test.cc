// SPDX-License-Identifier: Apache-2.0
// Snapshots are written concurrently with rounds: what continues meanwhile, and what waits for the
// disk.
#include <gtest/gtest.h>

#include "common/codec/codec.h"
#include "coordinator/engine/last_snapshots.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

struct Sink final : UploadSink {
  void Granted(uint64_t) override { granted = true; }
  void Accepted() override {}
  void Refused(const absl::Status& why) override { refused = why; }
  bool granted = false;
  absl::Status refused;
};

class SnapshotWriting : public testing::Test {
 protected:
  SnapshotWriting() {
    (void)c_.Submit(spec_);
    job_record_ = c_.View("tiny").record;
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
  }
  // Closes and commits a round without contributions at that version, and runs everything except
  // snapshot writes.
  void Round(uint64_t version) {
    events_.clear();
    c_.CloseEmptyRound(job_record_, {FragmentIndex{0}, Version{version}});
    c_.work.RunAll();
    const auto* aggregated = Find<RoundAggregated>(events_);
    ASSERT_NE(aggregated, nullptr);
    head_ = {aggregated->record.reached.version, aggregated->record.hash};
    c_.data.Committed(aggregated->record);
    c_.work.RunAll();
  }
  // Takes a snapshot of the current state, through a checkpoint.
  void TakeSnapshot(uint64_t version, uint64_t step = 10) {
    c_.data.WriteCheckpoint({job_, step, {Version{version}}});
    c_.work.RunAll();
    ASSERT_GE(c_.snapshot_work.pending(), 1u);
  }
  std::shared_ptr<Sink> AskToUpload(uint64_t version) {
    ContributionHeader header;
    header.job = job_;
    header.worker = WorkerId{"w" + std::to_string(version)};
    header.target = {FragmentIndex{0}, Version{version}};
    header.codec = spec_.sync.upload_codec;
    header.encoded_bytes = EncodedSize(header.codec, layout_.fragments[0].elements);
    const auto sink = std::make_shared<Sink>();
    EXPECT_TRUE(c_.data.uploads().Begin(version, header, sink).ok());
    c_.data.uploads().Grant(version, {});
    c_.work.RunAll();
    return sink;
  }
  // An upload that waits because the snapshot of version 1 is being written and the next round is
  // closed.
  std::shared_ptr<Sink> AskToUploadBehindAWrite() {
    Round(0);
    TakeSnapshot(1);
    Round(1);
    return AskToUpload(2);
  }
  bool HasUpdate(uint64_t version) {
    const RoundKey key{job_, job_record_.epoch, {FragmentIndex{0}, Version{version}}};
    return c_.rounds.OpenCommitted(key, layout_.digest).ok() && c_.rounds.FindUpdate(key).ok();
  }
  template <typename T>
  int64_t Count() const {
    return std::count_if(events_.begin(), events_.end(), [](const Event& e) { return std::holds_alternative<T>(e); });
  }
  std::vector<Version> OnDisk() { return *c_.snapshots.List(job_, job_record_.epoch, FragmentIndex{0}); }

  const JobId job_{"tiny"};
  const JobSpec spec_ = TinySpec("tiny");
  const ModelLayout layout_ = MakeModelLayout(spec_.model, spec_.sync.pattern, spec_.sync.layers_per_fragment);
  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  std::vector<Event> events_;
  JobRecord job_record_;
  FragmentHead head_;
};

TEST_F(SnapshotWriting, NextRoundIsLoggedAndTheOneAfterWaitsForTheDisk) {
  Round(0);
  TakeSnapshot(1);
  const auto beside = AskToUpload(1);
  EXPECT_TRUE(beside->granted);
  Round(1);
  EXPECT_TRUE(HasUpdate(1));
  const auto behind = AskToUpload(2);
  EXPECT_FALSE(behind->granted);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  c_.RunWork();
  EXPECT_TRUE(behind->granted) << behind->refused;
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{1}});
  ASSERT_NE(Find<CheckpointWritten>(events_), nullptr);
}

TEST_F(SnapshotWriting, EndedUploadIsNotGranted) {
  const auto behind = AskToUploadBehindAWrite();
  EXPECT_EQ(c_.data.uploads().End(2)->sink, behind);
  EXPECT_EQ(c_.data.uploads().End(2), nullptr);
  c_.RunWork();
  EXPECT_FALSE(behind->granted);
}

TEST_F(SnapshotWriting, AFailureOfTheDiskLetsTheRoundGoOn) {
  const auto behind = AskToUploadBehindAWrite();
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  c_.RunWork();
  EXPECT_TRUE(behind->granted) << behind->refused;
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  EXPECT_NE(Find<CheckpointDelayed>(events_), nullptr);
}

// Otherwise the log would grow by the same amount again, on a full disk.
TEST_F(SnapshotWriting, FailedSnapshotIsWrittenWithTheNextRound) {
  Round(0);
  c_.RunWork();
  Round(1);
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}}) << "small rounds alone make none due";
  TakeSnapshot(2);
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  Round(2);
  EXPECT_EQ(c_.snapshot_work.pending(), 1u);
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{3}});
  Round(3);
  EXPECT_EQ(c_.snapshot_work.pending(), 0u) << "it is owed no more";
}

// As when the log's size requires a snapshot and a checkpoint follows at the same commit: one copy
// suffices.
TEST_F(SnapshotWriting, VersionIsWrittenOnceForAllRequests) {
  Round(0);
  TakeSnapshot(1, 10);
  TakeSnapshot(1, 20);
  EXPECT_EQ(c_.snapshot_work.pending(), 3u) << "a snapshot and two checkpoints of it";
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{1}});
  EXPECT_EQ(Count<CheckpointWritten>(), 2);
}

TEST_F(SnapshotWriting, FailureIsReportedToAllRequests) {
  Round(0);
  TakeSnapshot(1, 10);
  TakeSnapshot(1, 20);
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  c_.RunWork();
  EXPECT_EQ(Count<CheckpointDelayed>(), 2);
  EXPECT_EQ(Count<CheckpointWritten>(), 0);
  TakeSnapshot(1, 30);
  c_.RunWork();
  EXPECT_EQ(Count<CheckpointWritten>(), 1) << "the next one tries again";
}

// After an orderly stop the next start has nothing to recompute.
TEST_F(SnapshotWriting, LastSnapshotsContainTheCommittedState) {
  Round(0);
  Round(1);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}}) << "the log does not outweigh it yet";
  const auto last = std::make_shared<LastSnapshots>();
  bool done = false;
  c_.data.SnapshotAll(last, [&done] { done = true; });
  c_.RunWork();
  EXPECT_TRUE(done);
  EXPECT_EQ(last->written, 1u);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{2}});
}

TEST_F(SnapshotWriting, UncommittedRoundHasNoLastSnapshot) {
  Round(0);
  c_.CloseEmptyRound(job_record_, {FragmentIndex{0}, Version{1}});
  c_.work.RunAll();  // merged
  const auto last = std::make_shared<LastSnapshots>();
  bool done = false;
  c_.data.SnapshotAll(last, [&done] { done = true; });
  c_.RunWork();
  EXPECT_TRUE(done);
  EXPECT_EQ(last->fragments.size(), 1u);
  EXPECT_EQ(last->written, 0u);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
}

TEST_F(SnapshotWriting, LastSnapshotsStopOnAFullDiskOrByRequest) {
  Round(0);
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  const auto full = std::make_shared<LastSnapshots>();
  int done = 0;
  c_.data.SnapshotAll(full, [&done] { ++done; });
  c_.RunWork();
  EXPECT_TRUE(absl::IsResourceExhausted(full->why)) << full->why;
  const auto hasty = std::make_shared<LastSnapshots>();
  hasty->go_on = false;
  c_.data.SnapshotAll(hasty, [&done] { ++done; });
  c_.RunWork();
  EXPECT_EQ(hasty->written, 0u);
  EXPECT_EQ(done, 2);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
}

// The snapshot that the log's size required.
TEST_F(SnapshotWriting, TheLastSnapshotsMakeUpForOneThatFailed) {
  uint64_t version = 0;
  while (c_.snapshot_work.pending() == 0) Round(version++);
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  const auto last = std::make_shared<LastSnapshots>();
  c_.data.SnapshotAll(last, [] {});
  c_.RunWork();
  EXPECT_EQ(last->written, 1u);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{version}});
}

TEST_F(SnapshotWriting, NoMergeAfterTheLastTurn) {
  Round(0);
  c_.CloseEmptyRound(job_record_, {FragmentIndex{0}, Version{1}});
  EXPECT_TRUE(c_.data.Merges());
  c_.data.MergeNoMore();
  const auto last = std::make_shared<LastSnapshots>();
  c_.data.SnapshotAll(last, [] {});
  c_.RunWork();
  EXPECT_FALSE(c_.data.Merges());
  EXPECT_EQ(last->written, 1u);
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{1}});
}

TEST_F(SnapshotWriting, AJobThatIsBeingLoadedAtTheEndIsNamed) {
  (void)c_.data.Expect(JobId{"later"});
  const auto last = std::make_shared<LastSnapshots>();
  c_.data.SnapshotAll(last, [] {});
  c_.RunWork();
  EXPECT_EQ(last->loading, std::vector<JobId>{JobId{"later"}});
}

TEST_F(SnapshotWriting, CheckpointedVersionIsNotWrittenAgainAtTheEnd) {
  Round(0);
  TakeSnapshot(1);
  c_.RunWork();
  const auto last = std::make_shared<LastSnapshots>();
  c_.data.SnapshotAll(last, [] {});
  c_.RunWork();
  EXPECT_TRUE(last->fragments.empty());
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{1}});
}

// A released job may still be writing a snapshot when it is prepared again; the preparation waits.
TEST_F(SnapshotWriting, PreparationWaitsForWritesOfTheJob) {
  Round(0);
  TakeSnapshot(1);
  c_.data.Release(job_);
  events_.clear();
  c_.data.Prepare(job_record_, {head_});
  c_.work.RunAll();
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  c_.RunWork();
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{1}});
  ASSERT_NE(Find<ParametersReady>(events_), nullptr);
  EXPECT_EQ(Find<ParametersReady>(events_)->hashes, std::vector<Digest>{head_.hash});
}

// The earlier parameters stay in memory until they are written.
TEST_F(SnapshotWriting, RollbackWaitsForWritesInProgress) {
  Round(0);
  TakeSnapshot(1);
  c_.RunWork();
  ASSERT_NE(Find<CheckpointWritten>(events_), nullptr);
  const Digest of_checkpoint = head_.hash;
  Round(1);
  TakeSnapshot(2, 20);
  events_.clear();
  JobRecord back = job_record_;
  back.epoch += 1;
  c_.data.RestoreCheckpoint({job_, 10, back.epoch}, back);
  c_.work.RunAll();
  c_.snapshot_work.RunAll();
  EXPECT_EQ(Find<ParametersReady>(events_), nullptr) << "it was read while the snapshot was being written";
  c_.RunWork();
  ASSERT_NE(Find<ParametersReady>(events_), nullptr);
  EXPECT_EQ(Find<ParametersReady>(events_)->hashes, std::vector<Digest>{of_checkpoint});
}

// After a rollback a job reaches the step again, with other parameters.
TEST_F(SnapshotWriting, DownloadOfACheckpointEndsWhenItIsWrittenAgain) {
  const auto write = [this](uint64_t version) {
    Round(version - 1);
    TakeSnapshot(version);
    c_.RunWork();
  };
  const auto open = [this] {
    absl::StatusOr<DownloadContent> content = absl::UnknownError("no answer");
    c_.data.OpenDownload({.key = CheckpointFragmentKey{job_, 10, FragmentIndex{0}}},
                         [&content](absl::StatusOr<DownloadContent> answer) { content = std::move(answer); });
    c_.work.RunAll();
    return *content;
  };
  write(1);
  const DownloadContent old = open();
  EXPECT_TRUE(old.source->Read(0, 1).ok());
  write(2);
  const absl::Status ended = old.source->Read(1, 1).status();
  EXPECT_TRUE(absl::IsAborted(ended)) << ended;
  EXPECT_EQ(ended.message(),
            "the checkpoint at step 10 of job tiny was written again since this download began; begin again");
  const DownloadContent now = open();
  EXPECT_NE(now.header.hash, old.header.hash) << "with which the receiver notices a resumed download";
  EXPECT_TRUE(now.source->Read(1, 1).ok());
  c_.data.WriteCheckpoint({job_, 10, {Version{2}}});  // again after a restart
  c_.RunWork();
  EXPECT_TRUE(now.source->Read(2, 1).ok());
}

}  // namespace
}  // namespace atl
