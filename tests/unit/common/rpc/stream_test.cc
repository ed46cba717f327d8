// SPDX-License-Identifier: Apache-2.0
// One set of cases for both forms of the control stream: gRPC over loopback and memory.
#include <gtest/gtest.h>

#include <thread>

#include "atoll/v1/worker.pb.h"
#include "common/base/executor.h"
#include "common/plan/limits.h"
#include "common/rpc/control_stream.h"
#include "tests/support/memory_stream.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

// Connected ends of either form.
class Link {
 public:
  virtual ~Link() = default;
  std::unique_ptr<WorkerEnd> worker;
  // The coordinator's end appears once the stream exists (over gRPC, after the worker has started).
  virtual std::unique_ptr<CoordinatorEnd> Accept() = 0;
  virtual void Break() = 0;
};

class MemoryLink final : public Link {
 public:
  MemoryLink() : pair_(MakeControlStreamPair(executor_)) { worker = std::move(pair_.worker); }
  ~MemoryLink() override { worker.reset(); }
  std::unique_ptr<CoordinatorEnd> Accept() override { return std::move(pair_.coordinator); }
  void Break() override { pair_.break_connection(); }

 private:
  ThreadExecutor executor_{1};
  ControlStreamPair pair_;
};

class GrpcLink final : public Link {
 public:
  explicit GrpcLink(ControlServiceOptions options = {}) {
    service_ = MakeControlService(
        [this](std::unique_ptr<CoordinatorEnd> end, std::string) { accepted_.Put(std::move(end)); }, options);
    server_ = StartServer({service_.get()});
    worker = Open();
  }
  ~GrpcLink() override { worker.reset(); }
  std::unique_ptr<CoordinatorEnd> Accept() override { return *accepted_.Take(); }
  void Break() override { server_->Shutdown({0}); }
  std::unique_ptr<WorkerEnd> Open() const { return OpenControlStream(Channel()); }
  std::shared_ptr<grpc::Channel> Channel() const {
    return *MakeControlChannel({.address = "127.0.0.1:" + std::to_string(server_->port())},
                               ChannelSecurity::PlaintextLoopback());
  }

 private:
  Inbox<std::unique_ptr<CoordinatorEnd>> accepted_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
};

// Records the events of one end.
template <typename In>
struct Ear {
  Inbox<In> messages;
  Inbox<absl::Status> closed;
  StreamHandlers<In> Handlers() {
    return {[this](In message) { messages.Put(std::move(message)); },
            [this](absl::Status s) { closed.Put(std::move(s)); }};
  }
};

absl::StatusCode Code(Inbox<absl::Status>& closed) { return closed.Take().value_or(absl::UnknownError("")).code(); }

class StreamTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam())
      link_ = std::make_unique<GrpcLink>();
    else
      link_ = std::make_unique<MemoryLink>();
    link_->worker->Start(at_worker_.Handlers());
    coordinator_ = link_->Accept();
  }
  void StartCoordinator() { coordinator_->Start(at_coordinator_.Handlers()); }
  void TearDown() override {
    coordinator_.reset();
    link_.reset();
  }
  uint64_t NextRequest() { return std::get<LeaseRequest>(*at_coordinator_.messages.Take()).request; }

  Ear<CoordinatorMessage> at_worker_;
  Ear<WorkerMessage> at_coordinator_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<CoordinatorEnd> coordinator_;
};
INSTANTIATE_TEST_SUITE_P(Forms, StreamTest, testing::Bool(),
                         [](const auto& form) { return form.param ? std::string("Grpc") : std::string("Memory"); });

LeaseRequest Request(uint64_t number) { return {{"tiny"}, number, 100}; }

TEST_P(StreamTest, CarriesMessagesBothWaysInOrder) {
  StartCoordinator();
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(link_->worker->Send(Request(i)), absl::OkStatus());
    ASSERT_EQ(coordinator_->Send(LeaseDenied{{"tiny"}, i, "paused"}), absl::OkStatus());
  }
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(NextRequest(), i);
    ASSERT_EQ(std::get<LeaseDenied>(*at_worker_.messages.Take()).request, i);
  }
}

TEST_P(StreamTest, WhatIsSentBeforeTheOtherStartsWaits) {
  ASSERT_EQ(link_->worker->Send(Request(5)), absl::OkStatus());
  StartCoordinator();
  EXPECT_EQ(NextRequest(), 5u);
}

TEST_P(StreamTest, TheWorkersCloseEndsBothInOrder) {
  StartCoordinator();
  for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(link_->worker->Send(Request(i)), absl::OkStatus());
  link_->worker->Close(absl::OkStatus());
  EXPECT_EQ(link_->worker->Send(Request(99)).code(), absl::StatusCode::kFailedPrecondition);
  for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(NextRequest(), i) << "what was queued before Close is sent";
  EXPECT_EQ(*at_coordinator_.closed.Take(), absl::OkStatus());
  EXPECT_EQ(*at_worker_.closed.Take(), absl::OkStatus());
  EXPECT_EQ(coordinator_->Send(LeaseDenied{}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StreamTest, TheCoordinatorsStatusReachesTheWorkerAfterItsMessages) {
  StartCoordinator();
  ASSERT_EQ(coordinator_->Send(Refused{"another protocol", false}), absl::OkStatus());
  coordinator_->Close(absl::FailedPreconditionError("another protocol"));
  EXPECT_EQ(std::get<Refused>(*at_worker_.messages.Take()).reason, "another protocol");
  const absl::Status told = *at_worker_.closed.Take();
  EXPECT_EQ(told.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(told.message(), "another protocol");
  EXPECT_EQ(*at_coordinator_.closed.Take(), absl::OkStatus());
}

TEST_P(StreamTest, CancelEndsBothAtOnce) {
  StartCoordinator();
  link_->worker->Cancel();
  EXPECT_EQ(Code(at_worker_.closed), absl::StatusCode::kCancelled);
  EXPECT_EQ(Code(at_coordinator_.closed), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, TheCoordinatorsCancelEndsBoth) {
  StartCoordinator();
  coordinator_->Cancel();
  EXPECT_EQ(Code(at_worker_.closed), absl::StatusCode::kCancelled);
  EXPECT_EQ(Code(at_coordinator_.closed), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, DroppingAnEndCancels) {
  StartCoordinator();
  link_->worker.reset();
  EXPECT_EQ(Code(at_coordinator_.closed), absl::StatusCode::kCancelled);
  EXPECT_EQ(at_worker_.closed.size(), 0u) << "no handler runs after the destructor";
}

TEST_P(StreamTest, DroppingTheCoordinatorsEndUnstartedRefusesTheStream) {
  coordinator_.reset();
  EXPECT_EQ(Code(at_worker_.closed), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, ABrokenConnectionIsUnavailableToTheWorker) {
  StartCoordinator();
  link_->Break();
  const absl::StatusCode code = Code(at_worker_.closed);
  // A server that shuts down immediately cancels its calls; over gRPC only a broken socket gives
  // UNAVAILABLE.
  EXPECT_TRUE(code == absl::StatusCode::kUnavailable || (GetParam() && code == absl::StatusCode::kCancelled)) << code;
  EXPECT_EQ(Code(at_coordinator_.closed), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, APausedReaderHearsNothingUntilItResumes) {
  coordinator_->PauseReading();
  StartCoordinator();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(link_->worker->Send(Request(i)), absl::OkStatus());
  // The other direction continues. When its message has arrived, the paused direction has had its
  // chance.
  ASSERT_EQ(coordinator_->Send(LeaseDenied{{"tiny"}, 1, ""}), absl::OkStatus());
  ASSERT_TRUE(at_worker_.messages.Take().has_value());
  EXPECT_EQ(at_coordinator_.messages.size(), 0u);
  coordinator_->ResumeReading();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(NextRequest(), i);
}

TEST_P(StreamTest, AnOverfullOutboxCutsTheStream) {
  // The coordinator never reads, so the worker's messages pile up once the transport's windows are
  // full.
  LogLines big;
  big.lines.assign(1, std::string(2000, 'x'));
  absl::Status status;
  for (size_t i = 0; i <= 2 * limits::kOutboxMessages && status.ok(); ++i) status = link_->worker->Send(big);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Code(at_worker_.closed), absl::StatusCode::kResourceExhausted);
  StartCoordinator();
  EXPECT_EQ(Code(at_coordinator_.closed), absl::StatusCode::kCancelled);
}

TEST_P(StreamTest, AnEndMayBeDroppedFromItsOwnHandler) {
  Inbox<bool> dropped;
  coordinator_->Start({[](WorkerMessage) {},
                       [&](absl::Status) {
                         coordinator_.reset();
                         dropped.Put(true);
                       }});
  link_->worker->Close(absl::OkStatus());
  EXPECT_TRUE(dropped.Take().has_value());
  EXPECT_EQ(*at_worker_.closed.Take(), absl::OkStatus());
}

// S30: a client that opens streams and sends nothing does not occupy a worker's slot for long. The
// other stream began earlier, so its time would also have passed.
TEST(GrpcStreamTest, ASilentStreamIsEndedAndOneThatHasSpokenStays) {
  GrpcLink link({.first_message = Seconds(2)});  // far longer than a message takes on a loaded machine
  Ear<CoordinatorMessage> at_worker, at_silent;
  Ear<WorkerMessage> at_coordinator, of_silent;
  link.worker->Start(at_worker.Handlers());
  const auto spoken = link.Accept();
  spoken->Start(at_coordinator.Handlers());
  ASSERT_EQ(link.worker->Send(Request(1)), absl::OkStatus());
  ASSERT_TRUE(at_coordinator.messages.Take().has_value());
  const auto silent = link.Open();
  silent->Start(at_silent.Handlers());
  const auto taken = link.Accept();
  taken->Start(of_silent.Handlers());
  EXPECT_EQ(Code(of_silent.closed), absl::StatusCode::kDeadlineExceeded);
  const absl::Status told = *at_silent.closed.Take();
  EXPECT_EQ(told.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(told.message(), "a control stream without a message for 2 s: say hello at once");
  ASSERT_EQ(link.worker->Send(Request(2)), absl::OkStatus());
  EXPECT_EQ(std::get<LeaseRequest>(*at_coordinator.messages.Take()).request, 2u);
}

// Otherwise its slot would be occupied forever: the peer has no space for the messages before the
// end.
TEST(GrpcStreamTest, AStreamThatTakesNoBytesIsBrokenOffOnceItsEndIsDecided) {
  GrpcLink link({.ending = Seconds(1)});
  Ear<CoordinatorMessage> at_worker;
  Ear<WorkerMessage> at_coordinator;
  link.worker->PauseReading();
  link.worker->Start(at_worker.Handlers());
  const auto coordinator = link.Accept();
  coordinator->Start(at_coordinator.Handlers());
  const std::string large(size_t{1} << 19, 'x');
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(coordinator->Send(LeaseDenied{{"tiny"}, i, large}), absl::OkStatus());
  coordinator->Close(absl::OkStatus());
  EXPECT_TRUE(at_coordinator.closed.Take().has_value());
  link.worker->ResumeReading();
  EXPECT_TRUE(at_worker.closed.Take().has_value());  // until then the callback gets messages
}

TEST(GrpcStreamTest, NobodyThereIsUnavailable) {
  auto end = OpenControlStream(*MakeControlChannel({.address = "127.0.0.1:1"}, ChannelSecurity::PlaintextLoopback()));
  Ear<CoordinatorMessage> ear;
  end->Start(ear.Handlers());
  EXPECT_EQ(Code(ear.closed), absl::StatusCode::kUnavailable);
}

// The worker's stream ends with an error that has these words.
void ExpectRefused(const std::string& bytes, const std::string& words) {
  GrpcLink link;
  Ear<WorkerMessage> ear;
  Inbox<grpc::Status> told;
  std::thread peer([&] { told.Put(OneCall(link.Channel(), "/atoll.v1.WorkerService/Control", false, bytes)); });
  const std::unique_ptr<CoordinatorEnd> end = link.Accept();
  end->Start(ear.Handlers());
  const std::optional<grpc::Status> status = told.Take();
  peer.join();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status->error_message();
  EXPECT_NE(status->error_message().find(words), std::string::npos) << status->error_message();
  EXPECT_EQ(Code(ear.closed), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ear.messages.size(), 0u);
}

TEST(GrpcStreamTest, BytesThatAreNoMessageAreRefusedAsSuch) {
  ExpectRefused("\x0a\x02\x0a", "no atoll.v1.WorkerMessage");
  ExpectRefused("\x0a\x03\x0a\x01\xff", "no atoll.v1.WorkerMessage");  // a name that is no UTF-8
}

TEST(GrpcStreamTest, ManySmallElementsAreRefused) {  // S38
  v1::WorkerMessage message;
  for (size_t i = 0; i < limits::kMessageElements; ++i) message.mutable_heartbeat()->add_metrics();
  ExpectRefused(message.SerializeAsString(), "elements");
}

}  // namespace
}  // namespace atl
