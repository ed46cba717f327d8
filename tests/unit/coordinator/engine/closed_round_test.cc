// SPDX-License-Identifier: Apache-2.0
// A round from its merge to after its commit: when its data is written, and the result if the job's
// parameters are released in the meantime.
#include <gtest/gtest.h>

#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

class ClosedRound : public testing::Test {
 protected:
  ClosedRound() {
    (void)c_.Submit(TinySpec("tiny"));
    key_.epoch = c_.View("tiny").record.epoch;
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
  }
  // Posts a round without contributions to the compute executor.
  void Close() {
    c_.CloseEmptyRound(c_.View("tiny").record, key_.target);
    ASSERT_EQ(c_.work.pending(), 1u);
  }
  bool HasRound() const { return Find<RoundAggregated>(events_) != nullptr; }
  RoundAggregated Aggregated() const { return HasRound() ? *Find<RoundAggregated>(events_) : RoundAggregated{}; }
  static Digest LayoutDigest() {
    const JobSpec spec = TinySpec("tiny");
    return MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest;
  }
  bool SegmentIsOpen() { return c_.rounds.Info(key_).ok(); }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  RoundKey key_{JobId{"tiny"}, 0, {FragmentIndex{0}, Version{0}}};
  std::vector<Event> events_;
};

TEST_F(ClosedRound, IsReportedToTheCore) {
  Close();
  c_.RunWork();
  EXPECT_TRUE(HasRound());
  EXPECT_TRUE(SegmentIsOpen());
}

// The commit does not wait for the update's flush, and workers do not wait for its write.
TEST_F(ClosedRound, UpdateIsServedAtTheCommitAndLoggedAfterIt) {
  Close();
  c_.RunWork();
  const RoundRecord record = Aggregated().record;
  EXPECT_FALSE(c_.rounds.Info(key_)->has_update);
  std::vector<absl::StatusOr<DownloadContent>> answers;
  const auto ask = [&] {
    c_.data.OpenDownload(
        {.key = UpdateKey{key_.job, record.reached}},
        [&answers](absl::StatusOr<DownloadContent> content) { answers.push_back(std::move(content)); });
  };
  ask();
  c_.RunWork();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(answers[0].status())) << "it is not committed";
  c_.data.Committed(record);
  ask();
  ASSERT_EQ(answers.size(), 2u) << "it waited for the disk";
  ASSERT_TRUE(answers[1].ok()) << answers[1].status();
  EXPECT_EQ(answers[1]->header.digest, record.update_digest);
  c_.RunWork();
  EXPECT_FALSE(SegmentIsOpen());
  ASSERT_TRUE(c_.rounds.OpenCommitted(key_, LayoutDigest()).ok());
  EXPECT_EQ(c_.rounds.FindUpdate(key_)->digest, record.update_digest);
}

TEST_F(ClosedRound, ReleaseBetweenMergeAndCommit) {
  Close();
  c_.work.RunOne();  // merged, and reported to the core
  ASSERT_TRUE(HasRound());
  ASSERT_TRUE(SegmentIsOpen());
  c_.data.Release(key_.job);
  c_.RunWork();
  EXPECT_FALSE(SegmentIsOpen());
  const RoundRecord record = Aggregated().record;
  c_.data.Committed(record);
  c_.RunWork();
  EXPECT_FALSE(SegmentIsOpen());
}

TEST_F(ClosedRound, ReleasedBeforeTheMerge) {
  Close();
  c_.data.Release(key_.job);
  c_.work.RunOne(1);
  c_.RunWork();
  EXPECT_FALSE(HasRound());
  EXPECT_FALSE(SegmentIsOpen());
}

}  // namespace
}  // namespace atl
