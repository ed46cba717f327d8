// Snapshots are written beside the rounds: what goes on meanwhile, and what waits for the disk.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/codec/codec.h"
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
  // Closes and commits a round without contributions, of that version, and does all but to write snapshots.
  void Round(uint64_t version) {
    struct CloseRound task;
    task.job = job_;
    task.target = {FragmentIndex{0}, Version{version}};
    events_.clear();
    c_.data.CloseRound(task, job_record_, BootNumber{1});
    c_.work.RunAll();
    const auto* aggregated = Find<RoundAggregated>();
    ASSERT_NE(aggregated, nullptr);
    head_ = {aggregated->record.reached.version, aggregated->record.hash};
    c_.data.Committed(aggregated->record);
    c_.work.RunAll();
  }
  // A snapshot of what there is, by way of a checkpoint.
  void TakeSnapshot(uint64_t version) {
    c_.data.WriteCheckpoint({job_, 10, {Version{version}}});
    c_.work.RunAll();
    ASSERT_GE(c_.snapshot_work.pending(), 1u);
  }
  std::shared_ptr<Sink> AskToUpload(uint64_t version) {
    const ModelLayout layout = MakeModelLayout(spec_.model, spec_.sync.pattern, spec_.sync.layers_per_fragment);
    ContributionHeader header;
    header.job = job_;
    header.worker = WorkerId{"w" + std::to_string(version)};
    header.target = {FragmentIndex{0}, Version{version}};
    header.codec = spec_.sync.upload_codec;
    header.encoded_bytes = EncodedSize(header.codec, layout.fragments[0].elements);
    EXPECT_TRUE(c_.data.BeginUpload(version, header).ok());
    const auto sink = std::make_shared<Sink>();
    c_.data.GrantUpload(version, sink);
    c_.work.RunAll();
    return sink;
  }
  template <typename T>
  const T* Find() const {
    for (const Event& event : events_) {
      if (const auto* found = std::get_if<T>(&event)) return found;
    }
    return nullptr;
  }
  bool HasUpdate(uint64_t version) {
    const RoundKey key{job_, job_record_.epoch, {FragmentIndex{0}, Version{version}}};
    const ModelLayout layout = MakeModelLayout(spec_.model, spec_.sync.pattern, spec_.sync.layers_per_fragment);
    return c_.rounds.OpenCommitted(key, layout.digest).ok() && c_.rounds.FindUpdate(key).ok();
  }
  std::vector<Version> OnDisk() { return *c_.snapshots.List(job_, job_record_.epoch, FragmentIndex{0}); }

  const JobId job_{"tiny"};
  const JobSpec spec_ = TinySpec("tiny");
  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  std::vector<Event> events_;
  JobRecord job_record_;
  FragmentHead head_;
};

TEST_F(SnapshotWriting, ARoundIsLoggedMeanwhileAndTheOneBehindItWaitsForTheDisk) {
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
  ASSERT_NE(Find<CheckpointWritten>(), nullptr);
}

TEST_F(SnapshotWriting, AnUploadThatEndedMeanwhileIsToldSo) {
  Round(0);
  TakeSnapshot(1);
  Round(1);
  const auto behind = AskToUpload(2);
  c_.data.EndUpload(2);
  c_.RunWork();
  EXPECT_FALSE(behind->granted);
  EXPECT_TRUE(absl::IsCancelled(behind->refused)) << behind->refused;
}

TEST_F(SnapshotWriting, AFailureOfTheDiskLetsTheRoundGoOn) {
  Round(0);
  TakeSnapshot(1);
  Round(1);
  const auto behind = AskToUpload(2);
  disk_.files.FailAt(0, SimDisk::Fault::kFull);
  c_.RunWork();
  EXPECT_TRUE(behind->granted) << behind->refused;
  EXPECT_EQ(OnDisk(), std::vector<Version>{Version{0}});
  EXPECT_NE(Find<CheckpointDelayed>(), nullptr);
}

// What a job still writes that was let go belongs to the same job when it comes back.
TEST_F(SnapshotWriting, AJobIsPreparedBehindWhatIsBeingWrittenOfIt) {
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
  ASSERT_NE(Find<ParametersReady>(), nullptr);
  EXPECT_EQ(Find<ParametersReady>()->hashes, std::vector<Digest>{head_.hash});
}

}  // namespace
}  // namespace atl
