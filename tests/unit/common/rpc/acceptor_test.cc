// The listener of a real server over real sockets: floods of connections and calls, and who still gets through.
#include "common/rpc/acceptor.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "common/rpc/server.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/raw_socket.h"

namespace atl {
namespace {

class AcceptorTest : public testing::Test {
 protected:
  void Start(ConnectionLimits limits) {
    server_ = *Server::Start({.connections = limits}, ServerSecurity::PlaintextLoopback(), {});
  }
  Descriptor Connect() const { return ConnectTo(server_->port()); }
  // On a connection of its own.
  std::shared_ptr<grpc::Channel> Channel() {
    grpc::ChannelArguments own;
    own.SetInt("grpc.use_local_subchannel_pool", 1);
    return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials(),
                                     own);
  }
  static grpc::StatusCode Health(const std::shared_ptr<grpc::Channel>& channel) {
    return OneCall(channel, kHealthMethod, true).error_code();
  }

  std::unique_ptr<Server> server_;
};

// S29.
TEST_F(AcceptorTest, AFloodOfConnectionsKeepsNobodyOut) {
  Start({.connections = 8, .per_address = 8});
  const std::shared_ptr<grpc::Channel> before = Channel();
  ASSERT_EQ(Health(before), grpc::StatusCode::OK);
  std::vector<Descriptor> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(Connect());
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK);
  EXPECT_EQ(Health(before), grpc::StatusCode::OK);
  for (size_t i = 0; i + 8 < flood.size(); ++i) EXPECT_TRUE(Ends(flood[i])) << i;
  EXPECT_GE(server_->Connections().gave_way, 42u);
  EXPECT_EQ(server_->Connections().refused, 0u);
}

TEST_F(AcceptorTest, ConnectionsThatHaveCalledKeepTheirPlace) {
  Start({.connections = 2, .per_address = 2});
  std::vector<std::shared_ptr<grpc::Channel>> channels = {Channel(), Channel()};
  for (const auto& channel : channels) ASSERT_EQ(Health(channel), grpc::StatusCode::OK);
  EXPECT_TRUE(Ends(Connect()));
  EXPECT_EQ(server_->Connections().refused, 1u);
  for (const auto& channel : channels) EXPECT_EQ(Health(channel), grpc::StatusCode::OK);
  channels.pop_back();  // its place is free again once its end has been seen
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK);
}

// Where anybody may call, who has called once would keep everybody else out.
TEST_F(AcceptorTest, WhoHasCalledAndIsIdleLosesItsPlaceWhereThatIsAsked) {
  server_ =
      *Server::Start({.connections = {.connections = 2, .per_address = 2}, .idle = Seconds(1), .age = Seconds(30)},
                     ServerSecurity::PlaintextLoopback(), {});
  const std::vector<std::shared_ptr<grpc::Channel>> channels = {Channel(), Channel()};
  for (const auto& channel : channels) ASSERT_EQ(Health(channel), grpc::StatusCode::OK);
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK) << "it waits until one of them is ended";
}

TEST_F(AcceptorTest, WhoNeverCallsIsEnded) {
  Start({.without_call = Milliseconds(50)});
  const Descriptor silent = Connect();
  EXPECT_TRUE(Ends(silent));
  EXPECT_EQ(server_->Connections().silent, 1u);
}

// S28.
TEST_F(AcceptorTest, CallsThatComeTooFastEndTheirConnection) {
  Start({.calls_per_second = 20});
  const std::shared_ptr<grpc::Channel> fast = Channel(), other = Channel();
  ASSERT_EQ(Health(other), grpc::StatusCode::OK);
  for (int i = 0; i < 10'000 && server_->Connections().cut == 0; ++i) Health(fast);
  EXPECT_GE(server_->Connections().cut, 1u);
  EXPECT_EQ(Health(other), grpc::StatusCode::OK);
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK) << "who comes from there has its turn";
}

// S20.
TEST_F(AcceptorTest, AfterCallsThatComeTooFastNobodySpeaksBeforeItsTurn) {
  Start({.calls_per_second = 20, .slowed = Seconds(600)});
  const std::shared_ptr<grpc::Channel> fast = Channel();
  for (int i = 0; i < 10'000 && server_->Connections().cut == 0; ++i) Health(fast);
  ASSERT_EQ(server_->Connections().cut, 1u);
  const std::string calls(5000, 'x');
  std::vector<Descriptor> eager;
  for (int i = 0; i < 10; ++i) {
    eager.push_back(Connect());
    EXPECT_EQ(::send(eager.back().get(), calls.data(), calls.size(), MSG_NOSIGNAL), ssize_t{5000});
  }
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK) << "who comes after them has its turn";
  for (const Descriptor& one : eager) EXPECT_TRUE(Ends(one));
  EXPECT_GT(server_->Connections().cut, 1u);
}

// S20.
TEST_F(AcceptorTest, CallsOfNoMethodAreCountedToo) {
  Start({.calls_per_second = 20});
  grpc::GenericStub fast(Channel());
  const auto call = [&] {
    grpc::ClientContext context;
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::StatusCode> code;
    fast.UnaryCall(&context, "/atoll.v1.JobService/Nothing", {}, &request, &response,
                   [&](const grpc::Status& status) { code.set_value(status.error_code()); });
    return code.get_future().get();
  };
  EXPECT_EQ(call(), grpc::StatusCode::UNIMPLEMENTED);
  for (int i = 0; i < 10'000 && server_->Connections().cut == 0; ++i) call();
  EXPECT_GE(server_->Connections().cut, 1u);
}

TEST_F(AcceptorTest, AfterTheEndNobodyIsLeftWaiting) {
  Start({});
  const int port = server_->port();
  const Descriptor there = Connect();
  server_->Shutdown(Seconds(1));
  EXPECT_TRUE(Ends(there));
  EXPECT_TRUE(
      Server::Start({.address = "127.0.0.1:" + std::to_string(port)}, ServerSecurity::PlaintextLoopback(), {}).ok());
}

TEST(AcceptorListen, WrongAddressesAreSaid) {
  EXPECT_EQ(Acceptor::Listen("127.0.0.1", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Acceptor::Listen("203.0.113.1:0", {}).status().code(), absl::StatusCode::kUnavailable);
  const auto first = Acceptor::Listen("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Acceptor::Listen("127.0.0.1:" + std::to_string((*first)->port()), {}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(AcceptorListen, TakesIPv6WhereThereIsSome) {
  const auto listener = Acceptor::Listen("[::1]:0", {});
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  EXPECT_GT((*listener)->port(), 0);
}

}  // namespace
}  // namespace atl
