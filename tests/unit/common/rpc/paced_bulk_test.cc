// SPDX-License-Identifier: Apache-2.0
// Rate caps of the bulk connection, under a manual clock.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/bulk_service.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

// Moved by the test; read by the transport's threads.
class SteppedClock final : public Clock {
 public:
  Instant Now() const override { return {nanos_.load()}; }
  int64_t WallNanos() const override { return nanos_.load(); }
  void Advance(Duration d) { nanos_ += d.ns; }

 private:
  std::atomic<int64_t> nanos_{1};
};

// Reports every byte count as it grows.
class CountingSink final : public BulkSink {
 public:
  explicit CountingSink(Inbox<uint64_t>& counts) : counts_(counts) {}
  absl::Status OnHeader(const DownloadHeader&) override { return absl::OkStatus(); }
  absl::Status OnBytes(uint64_t, Bytes bytes) override {
    counts_.Put(bytes.size());
    return absl::OkStatus();
  }

 private:
  Inbox<uint64_t>& counts_;
};

// A content that is read for sending.
class CountingSource final : public BulkSource {
 public:
  CountingSource(std::shared_ptr<BulkSource> of, Inbox<uint64_t>& counts) : of_(std::move(of)), counts_(counts) {}
  uint64_t size_bytes() const override { return of_->size_bytes(); }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    read += bytes;
    counts_.Put(bytes);
    return of_->Read(offset, bytes);
  }
  std::atomic<uint64_t> read{0};

 private:
  const std::shared_ptr<BulkSource> of_;
  Inbox<uint64_t>& counts_;
};

TEST(PacedUploadTest, TheLowerOfTheCapsOfClientAndJobHolds) {
  constexpr uint64_t kRate = 100'000'000, kFrame = limits::kFramePayloadBytes, kFrames = 4;
  for (const BulkCaps own : {BulkCaps{}, BulkCaps{.upload_bytes_per_second = 50 * kRate}}) {
    SteppedClock clock;
    ThreadExecutor io(1);
    KeepingHandler handler;
    const auto service = MakeBulkService(handler, io, clock, {});
    const auto server = StartServer({service.get()});
    const auto client = MakeGrpcBulkClient(BulkChannelTo(server->port()), clock, {.caps = own});
    client->SetJobCaps({.upload_bytes_per_second = kRate});
    const auto content = Pattern(kFrames * kFrame);
    Inbox<uint64_t> counts;
    Inbox<BulkResult> done;
    const auto source = std::make_shared<CountingSource>(MakeMemorySource(content), counts);
    const auto call = client->Upload(UploadOf(*content), source, [&](BulkResult r) { done.Put(std::move(r)); });
    for (uint64_t sent = 0, allowed = 0; sent < kFrames * kFrame;) {
      clock.Advance(Duration{static_cast<int64_t>(kFrame) * 10});  // 10 ns a byte
      allowed += kFrame;
      sent += *counts.Take();
      EXPECT_LE(source->read, allowed);
    }
    EXPECT_TRUE(done.Take()->status.ok());

    client->SetJobCaps({});  // the job is over
    if (own.upload_bytes_per_second == 0) {
      EXPECT_TRUE(UploadAndWait(*client, UploadOf(*content), MakeMemorySource(content)).status.ok());
    }
  }
}

TEST(PacedDownloadTest, ACapOfTheJobIsAskedForLikeTheClientsOwn) {
  SteppedClock clock;
  ThreadExecutor io(1);
  KeepingHandler handler;
  const auto service = MakeBulkService(handler, io, clock, {});
  const auto server = StartServer({service.get()});
  handler.Serve(Sha256Of({}), Pattern(100));
  const auto asked = [&](const BulkCaps& own, const BulkCaps& of_job) {
    const auto client = MakeGrpcBulkClient(BulkChannelTo(server->port()), clock, {.caps = own});
    client->SetJobCaps(of_job);
    EXPECT_TRUE(
        DownloadAndWait(*client, {.key = BlobKey{Sha256Of({})}}, std::make_shared<CollectingSink>()).status.ok());
    return handler.newest_limit.load();
  };
  EXPECT_EQ(asked({}, {}), 0u);
  EXPECT_EQ(asked({}, {.download_bytes_per_second = 5000}), 5000u);
  EXPECT_EQ(asked({.download_bytes_per_second = 7000}, {.download_bytes_per_second = 5000}), 5000u);
  EXPECT_EQ(asked({.download_bytes_per_second = 3000}, {.download_bytes_per_second = 5000}), 3000u);
  EXPECT_EQ(asked({.download_bytes_per_second = 3000}, {}), 3000u);
}

TEST(PacedDownloadTest, TheSenderKeepsTheCapThatTheReceiverAskedFor) {
  constexpr uint64_t kRate = 1'000'000'000, kFrame = limits::kFramePayloadBytes, kFrames = 6;
  SteppedClock clock;
  ThreadExecutor io(1);
  KeepingHandler handler;
  const auto service = MakeBulkService(handler, io, clock, {});
  const auto server = StartServer({service.get()});
  const auto client =
      MakeGrpcBulkClient(BulkChannelTo(server->port()), clock, {.caps = {.download_bytes_per_second = kRate}});
  const Sha256 sha = Sha256Of({});
  handler.Serve(sha, Pattern(kFrames / 2 * kFrame));

  Inbox<uint64_t> counts;
  Inbox<BulkResult> done;
  std::vector<std::unique_ptr<BulkCall>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(client->Download({.key = BlobKey{sha}, .worker = {"slow"}}, std::make_shared<CountingSink>(counts),
                                     [&](BulkResult result) { done.Put(std::move(result)); }));
  }
  // A client that names no worker is not delayed while the clock is stopped.
  EXPECT_TRUE(DownloadAndWait(*client, {.key = BlobKey{sha}, .limit_bytes_per_second = kRate},
                              std::make_shared<CollectingSink>())
                  .status.ok());
  uint64_t received = 0, allowed = 2 * kFrame;
  while (received < kFrames * kFrame) {
    received += *counts.Take();
    EXPECT_LE(received, allowed);
    if (received + 2 * kFrame <= allowed) continue;         // one frame of each may wait for the rest of its bytes
    clock.Advance(Duration{static_cast<int64_t>(kFrame)});  // a byte a nanosecond
    allowed += kFrame;
  }
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(done.Take()->status.ok());
}

// Sources that return data only once a given number of them are being read.
class Gathering {
 public:
  explicit Gathering(size_t wanted) : wanted_(wanted) {}
  // Returns false if the others did not arrive in time.
  bool Join() {
    MutexLock lock(mutex_);
    ++here_;
    came_.NotifyAll();
    for (int i = 0; i < 20 && here_ < wanted_; ++i) came_.WaitFor(mutex_, Seconds(1));
    return here_ >= wanted_;
  }

 private:
  const size_t wanted_;
  Mutex mutex_;
  CondVar came_;
  size_t here_ ATOLL_GUARDED_BY(mutex_) = 0;
};

class GatheredSource final : public BulkSource {
 public:
  GatheredSource(std::shared_ptr<Gathering> all, std::shared_ptr<const std::vector<std::byte>> bytes)
      : all_(std::move(all)), bytes_(MakeMemorySource(std::move(bytes))) {}
  uint64_t size_bytes() const override { return bytes_->size_bytes(); }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (!all_->Join()) return absl::InternalError("the others are not read meanwhile");
    return bytes_->Read(offset, bytes);
  }

 private:
  const std::shared_ptr<Gathering> all_;
  const std::shared_ptr<BulkSource> bytes_;
};

TEST(BulkReads, FilesAreReadSideBySide) {
  constexpr size_t kReads = 3;
  const SystemClock clock;
  KeepingHandler handler;
  ThreadExecutor reads(kReads);
  const auto service = MakeBulkService(handler, reads, clock, {.reads_at_once = kReads});
  const auto server = StartServer({service.get()});
  const auto all = std::make_shared<Gathering>(kReads);
  const auto client = MakeGrpcBulkClient(BulkChannelTo(server->port()), clock, {});
  Inbox<BulkResult> ended;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  std::vector<std::unique_ptr<BulkCall>> calls;
  for (size_t i = 0; i < kReads; ++i) {
    const Sha256 sha256 = Sha256Of(*Pattern(i + 1));
    handler.ServeFrom(sha256, std::make_shared<GatheredSource>(all, Pattern(1000)));
    calls.push_back(client->Download({.key = BlobKey{sha256}}, sinks.emplace_back(std::make_shared<CollectingSink>()),
                                     [&ended](BulkResult result) { ended.Put(std::move(result)); }));
  }
  for (size_t i = 0; i < kReads; ++i) EXPECT_EQ(ended.Take()->status, absl::OkStatus());
  for (const auto& sink : sinks) EXPECT_TRUE(sink->received == *Pattern(1000));
}

}  // namespace
}  // namespace atl
