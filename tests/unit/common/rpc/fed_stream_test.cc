// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/fed_stream.h"

#include <gtest/gtest.h>

#include <string>

#include "atoll/v1/job.grpc.pb.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

using LogStream = FedStream<v1::StreamJobLogsResponse>;

// Hands each stream's feeder to the test.
class Logs final : public v1::JobService::CallbackService {
 public:
  explicit Logs(Duration stall_limit) : stall_limit_(stall_limit) {}
  grpc::ServerWriteReactor<v1::StreamJobLogsResponse>* StreamJobLogs(grpc::CallbackServerContext* context,
                                                                     const v1::StreamJobLogsRequest*) override {
    auto* stream = LogStream::Open(context, stall_limit_);
    stream->on_done = [this] { ended.Put(true); };
    streams.Put(stream->feeder());
    return stream;
  }
  Inbox<std::shared_ptr<LogStream::Feeder>> streams;
  Inbox<bool> ended;

 private:
  const Duration stall_limit_;
};

class FedStreamTest : public testing::Test {
 protected:
  explicit FedStreamTest(Duration stall_limit = Seconds(60))
      : service_(stall_limit), server_(StartServer({&service_})) {
    SetDeadline(context_, kPatience);
    stub_ = v1::JobService::NewStub(*MakeControlChannel({.address = "127.0.0.1:" + std::to_string(server_->port())},
                                                        ChannelSecurity::PlaintextLoopback()));
    reader_ = stub_->StreamJobLogs(&context_, {});
    feeder_ = *service_.streams.Take();
  }
  static v1::StreamJobLogsResponse Line(const std::string& text) {
    v1::StreamJobLogsResponse line;
    line.add_lines(text);
    return line;
  }
  std::string Read() {
    v1::StreamJobLogsResponse line;
    return reader_->Read(&line) ? line.lines(0) : "the end";
  }

  Logs service_;
  std::unique_ptr<Server> server_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<v1::StreamJobLogsResponse>> reader_;
  std::shared_ptr<LogStream::Feeder> feeder_;
};

TEST_F(FedStreamTest, WritesWhatItIsFedInOrderAndThenItsEnd) {
  EXPECT_TRUE(feeder_->Takes());
  for (int i = 0; i < 200; ++i) feeder_->Feed(Line(std::to_string(i)));
  feeder_->End(absl::NotFoundError("no more"));
  EXPECT_FALSE(feeder_->Takes());
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Read(), std::to_string(i));
  EXPECT_EQ(Read(), "the end");
  const grpc::Status status = reader_->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no more");
  EXPECT_TRUE(service_.ended.Take());
}

TEST_F(FedStreamTest, AFeederMayOutliveItsStream) {
  context_.TryCancel();
  EXPECT_TRUE(service_.ended.Take());
  EXPECT_FALSE(feeder_->Takes());
  feeder_->Feed(Line("late"));
  feeder_->End(absl::OkStatus());
}

class SoonCut : public FedStreamTest {
 protected:
  SoonCut() : FedStreamTest(Seconds(1)) {}
};

TEST_F(SoonCut, AReaderThatTakesNothingIsCutOff) {
  const std::string large(size_t{1} << 19, 'x');
  for (int i = 0; i < 60; ++i) feeder_->Feed(Line(large));  // more than the connection holds
  EXPECT_FALSE(feeder_->Takes());
  EXPECT_TRUE(service_.ended.Take()) << "though nobody has ended it";
  while (Read() != "the end") {
  }
  EXPECT_EQ(reader_->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SoonCut, WhoHasTakenEverythingMayWait) {
  const auto held = std::make_shared<int>();
  feeder_->Feed(Line("one"), held);
  EXPECT_EQ(Read(), "one");
  // Another stream is cut in the meantime.
  grpc::ClientContext context;
  SetDeadline(context, kPatience);
  const auto other = stub_->StreamJobLogs(&context, {});
  const auto feeder = *service_.streams.Take();
  for (int i = 0; i < 60; ++i) feeder->Feed(Line(std::string(size_t{1} << 19, 'x')));
  EXPECT_TRUE(service_.ended.Take());
  EXPECT_TRUE(feeder_->Takes());
  EXPECT_EQ(held.use_count(), 2) << "gRPC may still hold it";
  feeder_->Feed(Line("two"));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(Read(), "two");
  feeder_->End(absl::OkStatus());
  EXPECT_EQ(Read(), "the end");
  EXPECT_TRUE(reader_->Finish().ok());
}

}  // namespace
}  // namespace atl
