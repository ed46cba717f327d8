// SPDX-License-Identifier: Apache-2.0
// One set of cases for both forms of the bulk connection, and cases for gRPC alone.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "atoll/v1/transfer.grpc.pb.h"
#include "common/base/executor.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/rpc_status.h"
#include "common/wire/frame.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_bulk.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

class BulkTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      service_ = MakeBulkService(handler_, io_, clock_, {});
      server_ = StartServer({service_.get()});
      client_ = MakeGrpcBulkClient(BulkChannelTo(server_->port()), clock_, {});
    } else {
      client_ = MakeMemoryBulkClient(handler_, io_, {});
    }
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
  }
  BulkResult Upload(const std::shared_ptr<const std::vector<std::byte>>& bytes) {
    return UploadAndWait(*client_, UploadOf(*bytes), MakeMemorySource(bytes));
  }

  SystemClock clock_;
  ThreadExecutor io_{1};
  KeepingHandler handler_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<BulkClient> client_;
  const Sha256 sha_ = Sha256Of({});
};
INSTANTIATE_TEST_SUITE_P(Forms, BulkTest, testing::Bool(),
                         [](const auto& form) { return form.param ? std::string("Grpc") : std::string("Memory"); });

TEST_P(BulkTest, UploadsOfEverySizeArriveWhole) {
  for (const size_t bytes : {size_t{1}, limits::kFramePayloadBytes - 1, limits::kFramePayloadBytes,
                             limits::kFramePayloadBytes + 1, 7 * limits::kFramePayloadBytes + 12345}) {
    const auto content = Pattern(bytes);
    const BulkResult result = Upload(content);
    EXPECT_EQ(result.status, absl::OkStatus()) << bytes;
    EXPECT_EQ(result.payload_bytes, bytes);
    const KeepingHandler::Stored stored = handler_.StoredOf(DigestOf(*content));
    EXPECT_TRUE(stored.accepted);
    EXPECT_TRUE(stored.bytes == *content);
  }
}

TEST(MemorySource, NamesTheCrcOfEveryPieceHoweverOften) {
  constexpr size_t kFrame = limits::kFramePayloadBytes;
  const auto content = Pattern(2 * kFrame + 777);
  const auto source = MakeMemorySource(content);
  for (int again = 0; again < 2; ++again) {
    for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, size_t>>{{0, kFrame},
                                                                                {kFrame, kFrame},
                                                                                {2 * kFrame, 777},
                                                                                {0, 100},
                                                                                {100, kFrame},
                                                                                {2 * kFrame, 7},
                                                                                {2 * kFrame + 777, 0}}) {
      const auto read = source->Read(offset, bytes);
      ASSERT_TRUE(read.ok());
      EXPECT_EQ(source->Crc32cOf(offset, *read), Crc32c(0, Bytes(*content).subspan(offset, bytes))) << offset;
    }
  }
}

TEST(ProbeSource, CostsNothingToAskFor) {
  const auto first = MakeProbeSource(limits::kProbeBytes), second = MakeProbeSource(1);
  EXPECT_EQ(first->Read(0, 10)->pieces.front().data(), second->Read(0, 1)->pieces.front().data());
  EXPECT_EQ(first->Read(0, 3 << 20)->size(), size_t{3} << 20);
}

TEST_P(BulkTest, AnUploadGoesOnWhereItStopped) {
  const auto content = Pattern(3'000'000);
  handler_.Preload(DigestOf(*content), std::vector<std::byte>(content->begin(), content->begin() + 1'234'567));
  const BulkResult result = Upload(content);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.resumed_at, 1'234'567u);
  EXPECT_EQ(result.payload_bytes, 3'000'000u - 1'234'567u);
  EXPECT_TRUE(handler_.StoredOf(DigestOf(*content)).bytes == *content);
}

TEST_P(BulkTest, AllBytesThereNeedOnlyTheEnd) {
  const auto content = Pattern(1000);
  handler_.Preload(DigestOf(*content), *content);
  const BulkResult result = Upload(content);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.payload_bytes, 0u);
  EXPECT_TRUE(handler_.StoredOf(DigestOf(*content)).accepted);
  EXPECT_EQ(Upload(content).status, absl::OkStatus()) << "accepted already";
}

TEST_P(BulkTest, RefusalsReachTheSenderWithTheirReason) {
  const auto content = Pattern(2'000'000);
  handler_.RefuseBegin(
      WithErrorInfo(absl::FailedPreconditionError("stale version 3"), {"STALE_VERSION", {{"want", "4"}}}));
  BulkResult result = Upload(content);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(result.status.message(), "stale version 3");
  EXPECT_EQ(ErrorInfoOf(result.status)->metadata.at("want"), "4");
  EXPECT_EQ(handler_.broken.Take()->code(), absl::StatusCode::kFailedPrecondition);
  handler_.RefuseBegin(absl::OkStatus());
  handler_.RefuseEnd(absl::DataLossError("another digest"));
  result = Upload(content);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(handler_.StoredOf(DigestOf(*content)).accepted);
}

// A client of gRPC takes trailers of 8 KiB; for more it reports RESOURCE_EXHAUSTED, after which a worker asks for ever.
TEST_P(BulkTest, RefusalsOfAnyLengthKeepTheirCode) {
  const auto content = Pattern(1000);
  for (const std::string& letter :
       {std::string("x"), std::string("\n"), std::string("\xF0\x9F\x90\xA0"), std::string("\xFF")}) {
    std::string text;
    while (text.size() < 100'000) text += letter;
    const std::vector<FieldViolation> violations(1000, {text, text});
    for (const absl::Status& refusal :
         {absl::InvalidArgumentError(text), WithViolations(absl::InvalidArgumentError(text), violations),
          WithErrorInfo(absl::InvalidArgumentError(text), {"X", {{"have", text}}})}) {
      handler_.RefuseBegin(refusal);
      EXPECT_EQ(Upload(content).status.code(), absl::StatusCode::kInvalidArgument) << letter;
    }
  }
}

TEST_P(BulkTest, DownloadsArriveWholeAndResume) {
  const auto content = Pattern(2 * limits::kFramePayloadBytes + 777);
  handler_.Serve(sha_, content);
  auto sink = std::make_shared<CollectingSink>();
  BulkResult result = DownloadAndWait(*client_, {.key = BlobKey{sha_}}, sink);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_TRUE(sink->received == *content);
  EXPECT_EQ(sink->header.version.value, 7u);
  EXPECT_EQ(handler_.finished.Take()->payload_bytes, content->size());

  for (const uint64_t offset : {uint64_t{1'500'000}, uint64_t{content->size()}}) {
    sink = std::make_shared<CollectingSink>();
    result = DownloadAndWait(*client_, {.key = BlobKey{sha_}, .offset_bytes = offset}, sink);
    EXPECT_EQ(result.status, absl::OkStatus()) << offset;
    EXPECT_TRUE(std::equal(sink->received.begin(), sink->received.end(),
                           content->begin() + static_cast<std::ptrdiff_t>(offset), content->end()));
  }
  result = DownloadAndWait(*client_, {.key = BlobKey{sha_}, .offset_bytes = content->size() + 1}, sink);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kOutOfRange);
}

TEST_P(BulkTest, WhatIsNotThereIsNotFound) {
  const BulkResult result = DownloadAndWait(*client_, {.key = BlobKey{sha_}}, std::make_shared<CollectingSink>());
  EXPECT_EQ(result.status.code(), absl::StatusCode::kNotFound);
}

TEST_P(BulkTest, ASinkThatRefusesEndsTheDownload) {
  handler_.Serve(sha_, Pattern(60'000'000));  // more than the transport buffers
  auto sink = std::make_shared<CollectingSink>();
  sink->refuse_after = 1'500'000;
  const BulkResult result = DownloadAndWait(*client_, {.key = BlobKey{sha_}}, sink);
  EXPECT_EQ(result.status.message(), "the sink is full");
  EXPECT_FALSE(handler_.finished.Take()->status.ok());
}

TEST_P(BulkTest, TellsWhichFilesAreMissing) {
  const Sha256 other = Sha256Of(AsBytes(std::string("other")));
  handler_.Serve(sha_, Pattern(1));
  Inbox<absl::StatusOr<std::vector<Sha256>>> answers;
  client_->MissingBlobs({other, sha_},
                        [&](absl::StatusOr<std::vector<Sha256>> answer) { answers.Put(std::move(answer)); });
  EXPECT_EQ(answers.Take().value().value(), (std::vector<Sha256>{other}));
}

TEST_P(BulkTest, CancelEndsWithCancelledAndTellsTheHandler) {
  // A slow endless source: the transfer is in progress when it is cancelled.
  class Slow final : public BulkSource {
   public:
    Slow(Inbox<bool>& begun, Inbox<bool>& go) : begun_(begun), go_(go), bytes_(Pattern(8'000'000)) {}
    uint64_t size_bytes() const override { return bytes_->size(); }
    absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
      if (offset == 0) {
        begun_.Put(true);
        go_.Take();
      }
      return BulkBytes{{Bytes(*bytes_).subspan(offset, bytes)}, bytes_};
    }
    Inbox<bool>&begun_, &go_;
    std::shared_ptr<const std::vector<std::byte>> bytes_;
  };
  Inbox<bool> begun, go;
  Inbox<BulkResult> done;
  const auto source = std::make_shared<Slow>(begun, go);
  auto call = client_->Upload(UploadOf(*source->bytes_), source, [&](BulkResult r) { done.Put(std::move(r)); });
  ASSERT_TRUE(begun.Take());
  call->Cancel();
  go.Put(true);
  EXPECT_EQ(done.Take()->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(handler_.broken.Take()->code(), absl::StatusCode::kCancelled);
}

TEST(MemoryBulkTest, ACutWireIsResumedByTheNextCall) {
  KeepingHandler handler;
  ManualExecutor executor;
  int frames = 0;
  const auto client =
      MakeMemoryBulkClient(handler, executor, {.frame_bytes = 1000, .cut = [&] { return ++frames == 6; }});
  const auto content = Pattern(10'500);
  std::vector<BulkResult> results;
  for (int i = 0; i < 2; ++i) {
    const auto call =
        client->Upload(UploadOf(*content), MakeMemorySource(content), [&](BulkResult r) { results.push_back(r); });
    executor.RunAll();
  }
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(results[1].status, absl::OkStatus());
  EXPECT_GT(results[1].resumed_at, 0u);
  EXPECT_EQ(results[1].resumed_at + results[1].payload_bytes, content->size());
  EXPECT_TRUE(handler.StoredOf(DigestOf(*content)).bytes == *content);
}

// ---- only over gRPC

class WireTest : public testing::Test {
 protected:
  void Start(BulkServiceOptions options) {
    service_ = MakeBulkService(handler_, io_, clock_, options);
    server_ = StartServer({service_.get()});
  }
  void TearDown() override { server_.reset(); }

  SystemClock clock_;
  ThreadExecutor io_{1};
  KeepingHandler handler_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
};

TEST_F(WireTest, APlainProtobufPeerUnderstandsTheFrames) {
  Start({});
  const auto content = Pattern(1'500'000);
  const auto stub = v1::TransferService::NewStub(BulkChannelTo(server_->port()));
  grpc::ClientContext context;
  const auto stream = stub->Upload(&context);
  v1::Frame frame;
  frame.set_header(SerializeUploadHeader(UploadOf(*content)));
  ASSERT_TRUE(stream->Write(frame));
  v1::Frame answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(ParseUploadStatus(answer.header())->resume_offset_bytes, 0u);
  for (size_t at = 0; at < content->size(); at += 1'000'000) {
    const Bytes piece = Bytes(*content).subspan(at, std::min<size_t>(1'000'000, content->size() - at));
    frame.Clear();
    frame.set_offset_bytes(at);
    frame.set_crc32c(Crc32c(0, piece));
    frame.set_last(at + piece.size() == content->size());
    frame.set_payload(piece.data(), piece.size());
    ASSERT_TRUE(stream->Write(frame));
  }
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(ParseUploadStatus(answer.header())->accepted);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(handler_.StoredOf(DigestOf(*content)).bytes == *content);

  handler_.Serve(Sha256{}, content);
  grpc::ClientContext reading;
  v1::DownloadRequest request;
  request.set_blob_sha256(Sha256{}.Hex());
  const auto reader = stub->Download(&reading, request);
  ASSERT_TRUE(reader->Read(&frame));
  EXPECT_EQ(ParseDownloadHeader(frame.header())->total_bytes, content->size());
  std::string received;
  while (reader->Read(&frame)) {
    EXPECT_EQ(frame.offset_bytes(), received.size());
    EXPECT_EQ(frame.crc32c(), Crc32c(0, AsBytes(frame.payload())));
    received += frame.payload();
  }
  EXPECT_TRUE(frame.last());
  EXPECT_EQ(DigestOf(AsBytes(received)), DigestOf(*content));
}

// S20.
TEST_F(WireTest, DownloadsThatNobodyReadsKeepNobodyElseOut) {
  Start({});
  handler_.Serve(Sha256{}, Pattern(4'000'000));
  grpc::ChannelArguments narrow;
  narrow.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // otherwise a receiver that reads nothing would buffer all of a download
  const auto stub = v1::TransferService::NewStub(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials(), narrow));
  v1::DownloadRequest request;
  request.set_blob_sha256(Sha256{}.Hex());
  v1::Frame frame;
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Frame>>> unread;
  const auto begin = [&] {
    SetDeadline(contexts.emplace_back(), Seconds(60));
    return stub->Download(&contexts.back(), request);
  };
  for (size_t i = 0; i < kDownloadsPerConnection; ++i) {
    unread.push_back(begin());
    ASSERT_TRUE(unread.back()->Read(&frame)) << i;  // the header, and no more
  }
  const auto one_too_many = begin();
  ASSERT_FALSE(one_too_many->Read(&frame));
  EXPECT_EQ(one_too_many->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto other = MakeGrpcBulkClient(BulkChannelTo(server_->port()), clock_, {});
  EXPECT_TRUE(DownloadAndWait(*other, {.key = BlobKey{Sha256{}}}, std::make_shared<CollectingSink>()).status.ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& reader : unread) {
    while (reader->Read(&frame)) continue;
    EXPECT_FALSE(reader->Finish().ok());
  }
  for (size_t i = 0; i <= unread.size(); ++i) handler_.finished.Take();
  const auto after = begin();
  EXPECT_TRUE(after->Read(&frame));
  contexts.back().TryCancel();
  while (after->Read(&frame)) continue;
  EXPECT_FALSE(after->Finish().ok());
}

TEST_F(WireTest, ADamagedFrameIsRefused) {
  Start({});
  const auto content = Pattern(100);
  const auto stub = v1::TransferService::NewStub(BulkChannelTo(server_->port()));
  grpc::ClientContext context;
  const auto stream = stub->Upload(&context);
  v1::Frame frame;
  frame.set_header(SerializeUploadHeader(UploadOf(*content)));
  ASSERT_TRUE(stream->Write(frame));
  ASSERT_TRUE(stream->Read(&frame));
  frame.Clear();
  frame.set_crc32c(1);
  frame.set_last(true);
  frame.set_payload(content->data(), content->size());
  ASSERT_TRUE(stream->Write(frame));
  EXPECT_FALSE(stream->Read(&frame));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(handler_.StoredOf(DigestOf(*content)).bytes.empty());
}

TEST_F(WireTest, AVanishedSenderLeavesAPrefixToResumeFrom) {
  Start({});
  const auto content = Pattern(3'000'000);
  {
    const auto stub = v1::TransferService::NewStub(BulkChannelTo(server_->port()));
    grpc::ClientContext context;
    const auto stream = stub->Upload(&context);
    v1::Frame frame;
    frame.set_header(SerializeUploadHeader(UploadOf(*content)));
    ASSERT_TRUE(stream->Write(frame));
    ASSERT_TRUE(stream->Read(&frame));
    frame.Clear();
    const Bytes piece = Bytes(*content).first(1'000'000);
    frame.set_crc32c(Crc32c(0, piece));
    frame.set_payload(piece.data(), piece.size());
    ASSERT_TRUE(stream->Write(frame));
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(handler_.broken.Take()->code(), absl::StatusCode::kCancelled);
  const auto client = MakeGrpcBulkClient(BulkChannelTo(server_->port()), clock_, {});
  const BulkResult result = UploadAndWait(*client, UploadOf(*content), MakeMemorySource(content));
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.resumed_at, 1'000'000u);
  EXPECT_TRUE(handler_.StoredOf(DigestOf(*content)).bytes == *content);
}

// S30.
TEST_F(WireTest, ASilentSenderIsCut) {
  Start({.stall_limit = Seconds(3)});  // far longer than the answer to the header takes on a loaded machine
  const auto stub = v1::TransferService::NewStub(BulkChannelTo(server_->port()));
  grpc::ClientContext context;
  const auto stream = stub->Upload(&context);
  v1::Frame frame;
  frame.set_header(SerializeUploadHeader(UploadOf(*Pattern(10))));
  ASSERT_TRUE(stream->Write(frame));
  ASSERT_TRUE(stream->Read(&frame));
  EXPECT_FALSE(stream->Read(&frame));
  const grpc::Status cut = stream->Finish();
  EXPECT_EQ(cut.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(cut.error_message(), "an upload made no progress for 3 s: nothing came from the sender");
  EXPECT_EQ(handler_.broken.Take()->code(), absl::StatusCode::kDeadlineExceeded);
}

// If the coordinator's disk hangs the error names the stage of the upload that got no answer.
TEST_F(WireTest, AnUploadThatTheDiskHoldsSaysWhatDidNotCome) {
  Start({.stall_limit = Seconds(3)});
  const std::vector<std::pair<KeepingHandler::Stage, std::string>> stages = {
      {KeepingHandler::Stage::kBegin, "begin with it"},
      {KeepingHandler::Stage::kBytes, "store what had come"},
      {KeepingHandler::Stage::kEnd, "accept it"}};
  std::vector<std::jthread> uploads;
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto content = Pattern(10 + i);
    handler_.Hold(DigestOf(*content), stages[i].first);
    uploads.emplace_back([this, content, wanted = stages[i].second] {
      const auto client = MakeGrpcBulkClient(BulkChannelTo(server_->port()), clock_, {});
      const absl::Status status = UploadAndWait(*client, UploadOf(*content), MakeMemorySource(content)).status;
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << wanted;
      EXPECT_EQ(status.message(), absl::StrCat("an upload made no progress for 3 s: the coordinator did not ", wanted,
                                               ", its disk may be busy or hang"));
    });
  }
}

// S30.
TEST_F(WireTest, ASilentReceiverOfAnUploadIsGivenUp) {
  // A server that accepts the stream and never answers.
  class Mute final : public v1::TransferService::CallbackService {
    class Reactor final : public grpc::ServerBidiReactor<v1::Frame, v1::Frame> {
     public:
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { std::unique_ptr<Reactor>(this).reset(); }
    };
    grpc::ServerBidiReactor<v1::Frame, v1::Frame>* Upload(grpc::CallbackServerContext*) override {
      return std::make_unique<Reactor>().release();
    }
  };
  Mute mute;
  const auto server = StartServer({&mute});
  const auto client = MakeGrpcBulkClient(BulkChannelTo(server->port()), clock_, {.stall_limit = Milliseconds(100)});
  const auto content = Pattern(10);
  const absl::Status status = UploadAndWait(*client, UploadOf(*content), MakeMemorySource(content)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "a bulk transfer made no progress for 0.1 s: the coordinator did not begin with it");
}

// The first piece is too large for a receiver that reads nothing; the source fails before a second.
class BreakingSource final : public BulkSource {
 public:
  uint64_t size_bytes() const override { return uint64_t{64} << 20; }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (offset > 0) return absl::DataLossError("the disk is broken");
    return MakeMemorySource(Pattern(bytes))->Read(0, bytes);
  }
};

TEST_F(WireTest, AFailedDownloadIsNotHeldByAReceiverThatReadsNothing) {
  Start({.stall_limit = Milliseconds(300)});
  handler_.ServeFrom(Sha256Of({}), std::make_shared<BreakingSource>());
  const auto stub = v1::TransferService::NewStub(BulkChannelTo(server_->port()));
  grpc::ClientContext context;
  const auto stream = stub->Download(&context, DownloadRequestToProto({.key = BlobKey{Sha256Of({})}}));
  EXPECT_EQ(handler_.finished.Take()->status.code(), absl::StatusCode::kDataLoss);
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(WireTest, NobodyThereIsUnavailable) {
  const auto client = MakeGrpcBulkClient(BulkChannelTo(1), clock_, {});
  const auto content = Pattern(10);
  EXPECT_EQ(UploadAndWait(*client, UploadOf(*content), MakeMemorySource(content)).status.code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(DownloadAndWait(*client, {.key = BlobKey{}}, std::make_shared<CollectingSink>()).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(WireTest, APortInUseIsSaid) {
  Start({});
  const absl::Status status = Server::Start({.address = "127.0.0.1:" + std::to_string(server_->port())},
                                            ServerSecurity::PlaintextLoopback(), {})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(std::to_string(server_->port())), absl::string_view::npos) << status;
  EXPECT_EQ(Server::Start({.address = "0.0.0.0:0"}, ServerSecurity::PlaintextLoopback(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace atl
