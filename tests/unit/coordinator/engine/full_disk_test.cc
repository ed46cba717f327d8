// SPDX-License-Identifier: Apache-2.0
// A full disk: writes of parameters and checkpoints wait and are retried; the job reports it and
// loses nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class FullDisk : public testing::Test {
 protected:
  void Fill() { disk_.files.FailAt(0, SimDisk::Fault::kFull, true); }
  void Empty() { disk_.files.FailAt(-1, SimDisk::Fault::kNone); }

  SmallDisk disk_;
  ManualClock clock_;
};

TEST_F(FullDisk, Version0WaitsForRoom) {
  SmallCoordinator c(disk_, clock_);
  Fill();
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  JobView view = c.View("tiny");
  EXPECT_EQ(view.record.state, JobState::kPending);
  EXPECT_TRUE(view.no_room);
  EXPECT_THAT(view.waiting_line, AllOf(HasSubstr("the coordinator's disk is full: the parameters wait for room"),
                                       HasSubstr("no space left"), EndsWith("next try in 5 s")));
  c.Pass(Seconds(6));
  c.Pass(Seconds(6));
  EXPECT_EQ(c.View("tiny").record.state, JobState::kPending);  // retried; the disk is still full
  Empty();
  c.Pass(Seconds(6));
  view = c.View("tiny");
  EXPECT_EQ(view.record.state, JobState::kWaitingForWorkers) << view.record.reason;
  EXPECT_FALSE(view.no_room);
  EXPECT_FALSE(view.fragments[0].hash.IsZero());
}

TEST_F(FullDisk, WaitForSpaceDoesNotHideHeldUploads) {
  SmallCoordinator c(disk_, clock_);
  Fill();
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  c.engine.Tell(DiskSpace{.low = true});
  c.Settle();
  EXPECT_THAT(c.View("tiny").waiting_line, AllOf(HasSubstr("disk is almost full: no uploads until space is freed"),
                                                 HasSubstr("the parameters wait for room")));
}

// Each call that writes version 0 in turn meets the full disk.
TEST_F(FullDisk, Version0WaitsAtEveryCall) {
  int calls = 0;
  {
    SmallDisk disk;
    ManualClock clock;
    SmallCoordinator c(disk, clock);
    const int before = disk.files.calls();
    ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
    calls = disk.files.calls() - before;
  }
  ASSERT_GT(calls, 5);
  Digest hash;
  for (int n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    SmallDisk disk;
    ManualClock clock;
    SmallCoordinator c(disk, clock);
    disk.files.FailAt(n, n % 2 == 0 ? SimDisk::Fault::kFull : SimDisk::Fault::kShortWrite);
    ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
    c.Pass(Seconds(6));
    const JobView view = c.View("tiny");
    EXPECT_EQ(view.record.state, JobState::kWaitingForWorkers) << view.record.reason;
    if (n == 0) hash = view.fragments[0].hash;
    EXPECT_EQ(view.fragments[0].hash, hash);
  }
}

TEST_F(FullDisk, HalfASnapshotIsNotLeftInTheWay) {
  SmallCoordinator c(disk_, clock_);
  const int before = disk_.files.calls();
  ASSERT_TRUE(c.Submit(TinySpec("other")).ok());
  const int calls = disk_.files.calls() - before;
  for (int n = 0; n < calls; ++n) {
    disk_.files.FailAt(n, SimDisk::Fault::kShortWrite);
    ASSERT_TRUE(c.Submit(TinySpec("tiny-" + std::to_string(n))).ok());
    EXPECT_THAT(disk_.files.Paths(), Not(Contains(EndsWith(".tmp"))));
    Empty();
  }
}

TEST_F(FullDisk, ACheckpointSaysThatItWaitsAndChangesNothing) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  std::vector<Event> events;
  c.data.SetEventSink([&events](Event event) { events.push_back(std::move(event)); });
  const WriteCheckpoint task{JobId{"tiny"}, 10, {Version{0}}};
  // The snapshot of version 0 exists already; the checkpoint itself finds the disk full.
  Fill();
  c.data.WriteCheckpoint(task);
  c.RunWork();
  ASSERT_EQ(events.size(), 1u);
  const auto* delayed = std::get_if<CheckpointDelayed>(&events[0]);
  ASSERT_NE(delayed, nullptr);
  EXPECT_EQ(delayed->step, 10u);
  EXPECT_THAT(delayed->reason, HasSubstr("no space left"));
  EXPECT_FALSE(c.snapshots.ReadCheckpoint(JobId{"tiny"}, 10).ok());
  Empty();
  c.data.WriteCheckpoint(task);
  c.RunWork();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NE(std::get_if<CheckpointWritten>(&events[1]), nullptr);
  EXPECT_TRUE(c.snapshots.ReadCheckpoint(JobId{"tiny"}, 10).ok());
}

TEST_F(FullDisk, ACheckpointWithoutItsSnapshotWaitsAsWell) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  std::vector<Event> events;
  c.data.SetEventSink([&events](Event event) { events.push_back(std::move(event)); });
  const std::string snapshot = DataDirectory("/state").SnapshotPath({JobId{"tiny"}, 0, {FragmentIndex{0}, Version{0}}});
  ASSERT_TRUE(disk_.files.Remove(snapshot).ok());
  Fill();
  c.data.WriteCheckpoint({JobId{"tiny"}, 10, {Version{0}}});
  c.RunWork();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(std::get_if<CheckpointDelayed>(&events[0]), nullptr);
}

TEST_F(FullDisk, FilesOfAJobLeaveATenthOfTheDisk) {
  disk_.files.space = {.free_bytes = 300, .total_bytes = 1000};
  SmallCoordinator c(disk_, clock_);
  const Sha256 file = Sha256Of(AsBytes(std::string("file")));
  const auto fits = c.data.BeginBlob(file, 200);
  ASSERT_TRUE(fits.ok()) << fits.status();
  c.data.blobs().Suspend(file, fits->turn);
  EXPECT_THAT(std::string(c.data.BeginBlob(file, 201).status().message()),
              HasSubstr("has space for 200 before it is almost full; free space"));
  disk_.files.space.free_bytes = 50;
  EXPECT_EQ(c.data.BeginBlob(file, 1).status().code(), absl::StatusCode::kResourceExhausted);
}

// Each file would fit alone.
TEST_F(FullDisk, FilesOnTheirWayShareIt) {
  disk_.files.space = {.free_bytes = 300, .total_bytes = 1000};
  SmallCoordinator c(disk_, clock_);
  const Sha256 one = Sha256Of(AsBytes(std::string("one"))), other = Sha256Of(AsBytes(std::string("other")));
  const auto first = c.data.BeginBlob(one, 150);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(std::string(c.data.BeginBlob(other, 150).status().message()),
              HasSubstr("has space for 50 before it is almost full, besides other uploads in progress"));
  const auto again = c.data.BeginBlob(one, 150);
  EXPECT_TRUE(again.ok()) << "who takes it over takes no more: " << again.status();
  c.data.blobs().Suspend(one, again->turn);
  EXPECT_TRUE(c.data.BeginBlob(other, 150).ok());
}

TEST_F(FullDisk, AFailingDiskStillFailsTheJob) {
  SmallCoordinator c(disk_, clock_);
  disk_.files.FailAt(0, SimDisk::Fault::kFails, true);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  EXPECT_EQ(c.View("tiny").record.state, JobState::kFailed);
}

}  // namespace
}  // namespace atl
