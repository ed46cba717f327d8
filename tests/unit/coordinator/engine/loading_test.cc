// SPDX-License-Identifier: Apache-2.0
// Answers to requests for a job while its parameters are being loaded.
#include <gtest/gtest.h>

#include "common/codec/codec.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

struct Sink final : UploadSink {
  void Granted(uint64_t) override {}
  void Accepted() override {}
  void Refused(const absl::Status& why) override { refused = why; }
  absl::Status refused;
};

// Stops before the snapshots' executor, which prepares jobs.
absl::Status Download(SmallCoordinator& c, DownloadKey key) {
  absl::Status status = absl::UnknownError("no answer");
  c.data.OpenDownload({.key = std::move(key)}, [&status](const auto& content) { status = content.status(); });
  c.work.RunAll();
  return status;
}
absl::Status Update(SmallCoordinator& c, const JobId& job) {
  return Download(c, UpdateKey{job, {FragmentIndex{0}, Version{1}}});
}
absl::Status Fragment(SmallCoordinator& c, const JobId& job) {
  return Download(c, FragmentKey{job, {FragmentIndex{0}, {}}, true});
}
absl::Status Offer(SmallCoordinator& c, const JobId& job) {
  const auto sink = std::make_shared<Sink>();
  ContributionHeader header;
  header.job = job;
  header.worker = WorkerId{"w1"};
  header.target = {FragmentIndex{0}, Version{0}};
  header.encoded_bytes = 1;  // not the size of a fragment: a loaded job reports that
  c.engine.OfferUpload(header, BootNumber{1}, sink);
  (void)c.engine.Turn();
  return sink->refused;
}

const JobId kJob{"tiny"};

class LoadingJob : public testing::Test {
 protected:
  LoadingJob() {
    SmallCoordinator before(disk_, clock_);
    (void)before.Submit(TinySpec("tiny"));
    before.Settle();
  }
  SmallDisk disk_;
  ManualClock clock_;
};

TEST_F(LoadingJob, IsUnavailableUntilItIsLoaded) {
  SmallCoordinator c(disk_, clock_);
  for (const auto& status : {Update(c, kJob), Fragment(c, kJob), Offer(c, kJob)}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(status.message(), "job tiny is being loaded by the coordinator; ask again");
  }
  c.Settle();
  EXPECT_TRUE(Fragment(c, kJob).ok());
  EXPECT_NE(Update(c, kJob).message().find("version 1 of fragment 0 is not committed"), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(Offer(c, kJob)));
}

TEST_F(LoadingJob, IsNotRunningOnceItIsCancelled) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Ask(JobControlled{.job = kJob, .action = JobAction::kCancel}).ok());
  EXPECT_TRUE(absl::IsNotFound(Update(c, kJob)));
  EXPECT_TRUE(absl::IsNotFound(Fragment(c, kJob)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Offer(c, kJob)));
}

TEST_F(LoadingJob, IsNotInMemoryAfterItsRelease) {
  SmallCoordinator c(disk_, clock_);
  (void)c.engine.Turn();
  c.work.RunAll();  // up to the snapshots' executor
  c.data.Release(kJob);
  c.Settle();
  EXPECT_EQ(c.data.JobsInMemory(), 0u);
  EXPECT_EQ(c.View("tiny").fragments.size(), 1u);
}

// As when a job is paused and resumed while its first preparation still reads.
TEST_F(LoadingJob, TheLaterOfTwoPreparationsCounts) {
  SmallCoordinator c(disk_, clock_);
  (void)c.engine.Turn();
  c.work.RunAll();
  c.data.Release(kJob);
  const uint64_t second = c.data.Expect(kJob);
  EXPECT_EQ(c.data.Expect(kJob), second + 1);
  c.Settle();
  EXPECT_EQ(c.data.JobsInMemory(), 0u) << "the first one";
  EXPECT_TRUE(absl::IsUnavailable(Offer(c, kJob))) << "the one that is expected";
}

// S39: a large job is prepared for minutes.
TEST_F(LoadingJob, HoldsUpNoRoundOfAnotherJob) {
  SmallCoordinator c(disk_, clock_);
  c.Settle();
  const JobRecord record = c.View("tiny").record;
  JobRecord other = record;
  other.job = JobId{"other"};
  std::vector<Event> events;
  c.data.SetEventSink([&events](Event event) { events.push_back(std::move(event)); });
  c.data.Prepare(other, {{}});
  c.CloseEmptyRound(record, {FragmentIndex{0}, Version{0}});
  while (c.work.RunAll() + c.snapshot_work.RunAll() > 0) continue;
  EXPECT_NE(Find<RoundAggregated>(events), nullptr);
  EXPECT_EQ(c.prepare_work.pending(), 1u);
  c.RunWork();
  EXPECT_NE(Find<ParametersReady>(events), nullptr);
}

// A preparation that nobody waits for ends without an event, however it ends.
TEST_F(LoadingJob, AFailureAfterItsReleaseIsNotReported) {
  SmallCoordinator c(disk_, clock_);
  c.Settle();
  JobRecord other = c.View("tiny").record;
  other.job = JobId{"other"};
  std::vector<Event> events;
  c.data.SetEventSink([&events](Event event) { events.push_back(std::move(event)); });
  const std::vector<FragmentHead> lost = {{.version = Version{3}}};
  c.data.Prepare(other, lost);
  c.RunWork();
  EXPECT_NE(Find<TaskFailed>(events), nullptr);
  events.clear();
  c.data.Prepare(other, lost);
  c.data.Release(other.job);
  c.RunWork();
  EXPECT_EQ(Find<TaskFailed>(events), nullptr);
}

TEST_F(LoadingJob, UnknownJobIsNotRunning) {
  SmallCoordinator c(disk_, clock_);
  const JobId other{"other"};
  EXPECT_TRUE(absl::IsNotFound(Update(c, other)));
  EXPECT_TRUE(absl::IsNotFound(Fragment(c, other)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Offer(c, other)));
}

// As by a rollback, which releases the earlier parameters first.
TEST_F(LoadingJob, AJobThatIsLoadedAgainIsUnavailableMeanwhile) {
  SmallCoordinator c(disk_, clock_);
  c.Settle();
  const JobRecord record = c.View("tiny").record;
  c.data.RestoreCheckpoint({kJob, 10, record.epoch}, record);
  EXPECT_TRUE(absl::IsUnavailable(Offer(c, kJob)));
}

}  // namespace
}  // namespace atl
