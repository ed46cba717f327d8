// SPDX-License-Identifier: Apache-2.0
// The memory cost of a frame: once a transfer has started, a frame allocates nothing.
#include "tests/bench/allocations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/wall_time.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/read_at_source.h"
#include "common/rpc/tls.h"
#include "common/trust/access.h"
#include "common/trust/secret_files.h"
#include "tests/unit/common/format/temp_dir.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

using bench::Allocations;
using Content = std::shared_ptr<const std::vector<std::byte>>;

// Counts bytes and keeps none; answers from another thread, as a coordinator does.
class CountingHandler final : public BulkHandler {
 public:
  explicit CountingHandler(Executor& io) : io_(io) {}
  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return std::make_shared<Upload>(*this); }
  void OnDownload(DownloadRequest, DownloadReply reply) override {
    DownloadContent content;
    content.source = MakeMemorySource(served);
    content.header.total_bytes = served->size();
    content.header.version = {1};
    reply(std::move(content));
  }
  void OnMissingBlobs(std::vector<Sha256>, std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override {
    reply(std::vector<Sha256>{});
  }
  Content served;

 private:
  // At most kUploadCredits frames are unanswered at a time, so this number of slots suffices.
  class Upload final : public UploadHandler {
   public:
    explicit Upload(CountingHandler& owner) : owner_(owner) {}
    void OnBegin(UploadHeader, UploadReply reply) override { reply(UploadStatus{}); }
    void OnBytes(uint64_t, BulkBytes bytes, StatusReply reply) override {
      Waiting* place = &waiting_[next_++ % waiting_.size()];
      place->bytes = std::move(bytes);
      place->reply = std::move(reply);
      owner_.io_.Post([place] {
        place->bytes = {};
        const StatusReply answer = std::exchange(place->reply, nullptr);
        answer(absl::OkStatus());
      });
    }
    void OnEnd(StatusReply reply) override { reply(absl::OkStatus()); }
    void OnBroken(absl::Status) override {}

   private:
    struct Waiting {
      BulkBytes bytes;
      StatusReply reply;
    };
    CountingHandler& owner_;
    std::array<Waiting, kUploadCredits + 1> waiting_;
    size_t next_ = 0;
  };
  Executor& io_;
};

struct Securities {
  ServerSecurity server;
  ChannelSecurity client;
};

// Mutual TLS between a coordinator and a worker of one authority.
Securities Sealed(const std::string& directory) {
  static const SystemClock clock;
  const int64_t now_s = WallSeconds(clock);
  const auto authority = Authority::Create(now_s);
  EXPECT_TRUE(authority.ok()) << authority.status();
  const auto file = [&](const Identity& identity) {
    const std::string path = directory + "/" + identity.name + ".pem";
    EXPECT_TRUE(WriteIdentityFile(path, *IssueIdentity(*authority, identity, now_s)).ok());
    return path;
  };
  return {*MutualTls(file({Role::kCoordinator, "coordinator", ""}), clock,
                     [](const std::string& method, const CertificateFacts& caller) {
                       return CheckAccess(method, caller.identity);
                     }),
          *MutualTlsChannel(file({Role::kWorker, "a", ""}), now_s)};
}

// The parameter: whether the connection is encrypted.
class AllocationsTest : public testing::TestWithParam<bool> {
 protected:
  AllocationsTest() {
    const Securities securities =
        GetParam() ? Sealed(directory_.path())
                   : Securities{ServerSecurity::PlaintextLoopback(), ChannelSecurity::PlaintextLoopback()};
    auto server = Server::Start({.address = "127.0.0.1:0"}, securities.server, {service_.get()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto channel = MakeBulkChannel({.address = "127.0.0.1:" + std::to_string(server_->port())}, securities.client);
    EXPECT_TRUE(channel.ok()) << channel.status();
    client_ = MakeGrpcBulkClient(*std::move(channel), clock_, {});
  }
  ~AllocationsTest() override {
    client_.reset();
    server_.reset();
  }

  void Upload(const Content& content) {
    EXPECT_EQ(UploadAndWait(*client_, UploadOf(*content), MakeMemorySource(content)).status, absl::OkStatus());
  }
  class Sink final : public BulkSink {
   public:
    absl::Status OnHeader(const DownloadHeader&) override { return absl::OkStatus(); }
    absl::Status OnBytes(uint64_t, Bytes) override { return absl::OkStatus(); }
  };
  void Download(const Content& content) {
    handler_.served = content;
    EXPECT_EQ(
        DownloadAndWait(*client_, {.key = BlobKey{Sha256Of({})}, .worker = {"a"}}, std::make_shared<Sink>()).status,
        absl::OkStatus());
  }
  // The cost of 320 MiB more, as the difference of a long and a short transfer: start and end
  // cancel out.
  template <typename Move>
  void ExpectNothingForAFrame(const Move& move) {
    constexpr size_t kMebibyte = 1 << 20, kMore = 320;
    const auto less = std::make_shared<const std::vector<std::byte>>(16 * kMebibyte);
    const auto more = std::make_shared<const std::vector<std::byte>>((16 + kMore) * kMebibyte);
    move(more);  // connections, buffers
    // Slice lists grow to a frame's size in each of the few reused slots. That may happen late and
    // takes at most some hundred allocations, however much is transferred; a busy machine uses more
    // slots at once, so the best of some tries counts. One allocation per frame would be 320 in each.
    Allocations by_less, by_more;
    for (int tries = 0; tries < 10; ++tries) {
      by_less = bench::CountAllocations([&] { move(less); });
      by_more = bench::CountAllocations([&] { move(more); });
      EXPECT_GT(by_less.own_calls, 0u) << "nothing is counted";
      if (by_more.own_calls < by_less.own_calls + 256) break;
    }
    EXPECT_LT(by_more.own_calls, by_less.own_calls + 256);
    EXPECT_LT(by_more.own_bytes, by_less.own_bytes + 256 * 256);
    // Slices over memory that gRPC does not own, and gRPC's C++ part.
    EXPECT_LT(by_more.library_calls, by_less.library_calls + kMore * 40);
  }

  const TempDir directory_;
  SystemClock clock_;
  ThreadExecutor io_{1};
  CountingHandler handler_{io_};
  std::unique_ptr<grpc::Service> service_ = MakeBulkService(handler_, io_, clock_, {});
  std::unique_ptr<Server> server_;
  std::unique_ptr<BulkClient> client_;
};

TEST_P(AllocationsTest, AnUploadTakesNoMemoryForItsFrames) {
  ExpectNothingForAFrame([&](const Content& content) { Upload(content); });
}

TEST_P(AllocationsTest, ADownloadTakesNoMemoryForItsFrames) {
  ExpectNothingForAFrame([&](const Content& content) { Download(content); });
}

INSTANTIATE_TEST_SUITE_P(Connections, AllocationsTest, testing::Bool(),
                         [](const auto& sealed) { return sealed.param ? "MutualTls" : "Plaintext"; });

TEST(ReadAtSource, ReadsIntoTheBuffersThatCameBack) {
  struct Zeros {
    absl::Status ReadAt(uint64_t, std::span<std::byte> out) const {
      std::fill(out.begin(), out.end(), std::byte{0});
      return absl::OkStatus();
    }
  };
  ReadAtSource<Zeros> source(std::make_shared<const Zeros>(), 64 << 20);
  const auto read_all = [&source] {
    BulkBytes leaving;  // while the next one is read
    for (uint64_t offset = 0; offset < source.size_bytes(); offset += limits::kFramePayloadBytes) {
      leaving = *source.Read(offset, limits::kFramePayloadBytes);
      EXPECT_EQ(leaving.size(), limits::kFramePayloadBytes);
    }
  };
  EXPECT_GT(bench::CountAllocations(read_all).own_bytes, 2 * limits::kFramePayloadBytes);
  EXPECT_EQ(bench::CountAllocations(read_all).own_calls, 0u);
}

}  // namespace
}  // namespace atl
