// SPDX-License-Identifier: Apache-2.0
// Uploads of files by users, over a real engine: two uploads of one file at the same time.
#include "coordinator/service/bulk_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_bulk.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::HasSubstr;

constexpr size_t kFrameBytes = 100;

class StoringFiles : public testing::Test {
 protected:
  struct Running {
    std::unique_ptr<BulkCall> call;
    std::optional<BulkResult> result;
  };

  Running& Begin() {
    Running& running = uploads_.emplace_back();
    running.call = client_->Upload(BlobUpload{.sha256 = sha_, .bytes = content_.size()}, MakeMemorySource(content_),
                                   [&running](const BulkResult& result) { running.result = result; });
    return running;
  }
  // Runs `steps` steps of the transport, each followed by the coordinator's immediate work.
  void Go(int steps) {
    for (int i = 0; i < steps && wire_.pending() > 0; ++i) {
      wire_.RunOne();
      coordinator_.Settle();
    }
  }
  // Repeats as the command line does, as long as the status asks for it.
  absl::Status Store() {
    for (int i = 0; i < 100; ++i) {
      const Running& upload = Begin();
      Go(1000);
      if (!absl::IsUnavailable(upload.result->status)) return upload.result->status;
    }
    return absl::DeadlineExceededError("told to ask again for ever");
  }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator coordinator_{disk_, clock_};
  BulkSessions sessions_{coordinator_.engine, coordinator_.data};
  ManualExecutor wire_;
  std::unique_ptr<BulkClient> client_ = MakeMemoryBulkClient(sessions_, wire_, {.frame_bytes = kFrameBytes, .cut = {}});
  std::deque<Running> uploads_;
  const std::string content_ = std::string(5000, 'x');
  const Sha256 sha_ = Sha256Of(AsBytes(content_));
};

TEST_F(StoringFiles, TwoUploadsOfOneFileBothEndWell) {
  for (int head_start = 0; head_start < 40; ++head_start) {
    SCOPED_TRACE(head_start);
    const Running& first = Begin();
    Go(head_start);
    const Running& second = Begin();
    Go(1000);
    ASSERT_TRUE(first.result && second.result);
    for (const Running* upload : {&first, &second}) {
      const absl::Status& status = upload->result->status;
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    }
    EXPECT_TRUE(first.result->status.ok() || second.result->status.ok()) << first.result->status;
    EXPECT_EQ(Store(), absl::OkStatus()) << "the one that was told to ask again";
    EXPECT_EQ(*coordinator_.blobs.Read(sha_, content_.size()), content_);
    ASSERT_TRUE(disk_.files.Remove(DataDirectory("/state").BlobPath(sha_)).ok());
  }
}

// S39: hashing a large file takes long.
TEST_F(StoringFiles, HoldsUpNoRound) {
  ASSERT_TRUE(coordinator_.Submit(TinySpec("tiny")).ok());
  const JobRecord record = coordinator_.View("tiny").record;
  std::vector<Event> events;
  coordinator_.data.SetEventSink([&events](Event event) { events.push_back(std::move(event)); });
  Begin();
  while (coordinator_.blob_work.pending() == 0 && wire_.pending() > 0) wire_.RunOne();
  coordinator_.CloseEmptyRound(record, {FragmentIndex{0}, Version{0}});
  while (coordinator_.work.RunAll() + coordinator_.snapshot_work.RunAll() > 0) continue;
  EXPECT_NE(Find<RoundAggregated>(events), nullptr);
  EXPECT_GT(coordinator_.blob_work.pending(), 0u);
}

// The disk has space for the file and a tenth of the disk, but not for the file and the stored part
// in addition.
TEST_F(StoringFiles, StoredBytesNeedNoFurtherSpace) {
  disk_.files.space = {.free_bytes = 7000, .total_bytes = 20'000};
  const Running& broken = Begin();
  Go(60);
  ASSERT_FALSE(broken.result.has_value());
  broken.call->Cancel();
  Go(1000);
  const std::string part = DataDirectory("/state").BlobPartPath(sha_);
  const uint64_t there = disk_.files.At(part).size();
  ASSERT_GT(there, 0u);
  ASSERT_LT(there, content_.size());
  disk_.files.space.free_bytes -= there;
  EXPECT_EQ(Store(), absl::OkStatus());
  EXPECT_EQ(*coordinator_.blobs.Read(sha_, content_.size()), content_);
}

TEST_F(StoringFiles, AFileWithoutRoomIsRefusedAndLeavesNothing) {
  disk_.files.space = {.free_bytes = 6999, .total_bytes = 20'000};
  const absl::Status refused = Store();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has space for 4999 before it is almost full"));
  EXPECT_FALSE(disk_.files.Exists(DataDirectory("/state").BlobPartPath(sha_)));
}

}  // namespace
}  // namespace atl
