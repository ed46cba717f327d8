// SPDX-License-Identifier: Apache-2.0
// A real server's listener over real sockets: floods of connections and calls, and which clients
// still get served.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/rpc/server.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/raw_socket.h"

namespace atl {
namespace {

class DoorTest : public testing::Test {
 protected:
  void Start(guard::ConnectionLimits limits) {
    server_ = *Server::Start({.connections = limits}, ServerSecurity::PlaintextLoopback(), {});
  }
  Descriptor Connect() const { return ConnectTo(server_->port()); }
  // On its own connection.
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
TEST_F(DoorTest, AFloodOfConnectionsKeepsNobodyOut) {
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

TEST_F(DoorTest, ConnectionsThatHaveCalledKeepTheirPlace) {
  Start({.connections = 2, .per_address = 2});
  std::vector<std::shared_ptr<grpc::Channel>> channels = {Channel(), Channel()};
  for (const auto& channel : channels) ASSERT_EQ(Health(channel), grpc::StatusCode::OK);
  EXPECT_TRUE(Ends(Connect()));
  EXPECT_EQ(server_->Connections().refused, 1u);
  for (const auto& channel : channels) EXPECT_EQ(Health(channel), grpc::StatusCode::OK);
  channels.pop_back();  // its slot is free again once its end has been seen
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK);
}

TEST_F(DoorTest, WhoNeverCallsIsEnded) {
  Start({.without_call = Milliseconds(50)});
  const Descriptor silent = Connect();
  EXPECT_TRUE(Ends(silent));
  EXPECT_EQ(server_->Connections().silent, 1u);
}

// S37.
TEST_F(DoorTest, ARequestIsAsLongAsItsMethodNeeds) {
  Start({});
  const auto answer = [&](const char* method, size_t bytes) {
    return OneCall(Channel(), absl::StrCat("/atoll.v1.", method), true, std::string(bytes, '\0')).error_message();
  };
  const std::string unknown = answer("JobService/SubmitJob", 0);
  EXPECT_EQ(answer("JobService/ListJobs", limits::kQueryBytes), unknown);
  EXPECT_EQ(answer("JobService/ListJobs", limits::kQueryBytes + 1),
            "a message of 65537 bytes; this method takes 65536 at most");
  for (const char* method :
       {"JobService/SubmitJob", "JobService/UpdateJob", "TransferService/MissingBlobs", "TransferService/Upload"})
    EXPECT_EQ(answer(method, limits::kMessageBytes), unknown) << method;
  EXPECT_EQ(answer("JobService/UpdateJob", limits::kMessageBytes + 1),
            "a message of 1114113 bytes; this method takes 1114112 at most");
}

// S28.
TEST_F(DoorTest, CallsThatComeTooFastEndTheirConnection) {
  Start({.calls_per_second = 20});
  const std::shared_ptr<grpc::Channel> fast = Channel(), other = Channel();
  ASSERT_EQ(Health(other), grpc::StatusCode::OK);
  for (int i = 0; i < 10'000 && server_->Connections().cut == 0; ++i) Health(fast);
  EXPECT_GE(server_->Connections().cut, 1u);
  EXPECT_EQ(Health(other), grpc::StatusCode::OK);
  EXPECT_EQ(Health(Channel()), grpc::StatusCode::OK) << "who comes from there has its turn";
}

// S20.
TEST_F(DoorTest, AfterCallsThatComeTooFastNobodySpeaksBeforeItsTurn) {
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
TEST_F(DoorTest, CallsOfNoMethodAreCountedToo) {
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

TEST_F(DoorTest, AfterTheEndNobodyIsLeftWaiting) {
  Start({});
  const int port = server_->port();
  const Descriptor there = Connect();
  server_->Shutdown(Seconds(1));
  server_.reset();
  EXPECT_TRUE(Ends(there));
  EXPECT_TRUE(
      Server::Start({.address = "127.0.0.1:" + std::to_string(port)}, ServerSecurity::PlaintextLoopback(), {}).ok());
}

// Unread bytes would reset the connection, and the answer could be lost.
TEST(EnrolDoor, AnAnswerArrivesAlthoughTheClientSendsTooMuch) {
  const auto door = *guard::Guard::Listen({.address = "127.0.0.1:0"});
  ASSERT_EQ(door->Answer([](guard::HttpRequest, const std::string&, guard::HttpReply reply) { reply({}); }),
            absl::OkStatus());
  const std::string body(200'000, 'x'), first = "POST /v1/enroll HTTP/1.1\r\n";
  for (const auto& [sent, status] : std::vector<std::pair<std::string, std::string>>{
           {first + "Content-Length: 200000\r\n\r\n" + body, "413"}, {body, "431"}}) {
    const Descriptor connection = ConnectTo(door->port());
    EXPECT_EQ(::send(connection.get(), sent.data(), sent.size(), MSG_NOSIGNAL), ssize_t(sent.size()));
    ::shutdown(connection.get(), SHUT_WR);
    std::array<char, 12> answer{};
    EXPECT_EQ(::recv(connection.get(), answer.data(), answer.size(), MSG_WAITALL), ssize_t(answer.size()));
    EXPECT_EQ(std::string(answer.data(), answer.size()), "HTTP/1.1 " + status);
    EXPECT_TRUE(Ends(connection));
  }
}

// A gRPC client's bytes follow the header, in the same packet and in separate ones.
TEST_F(DoorTest, ABalancerNamesWhoCalls) {
  server_ = *Server::Start({.proxied = true}, ServerSecurity::PlaintextLoopback(), {});
  const std::string header = "PROXY TCP4 203.0.113.7 10.0.0.1 40112 7070\r\n";
  for (const size_t first : {size_t{1}, size_t{20}, header.size()}) {
    const Descriptor connection = Connect();
    for (const std::string& part : {header.substr(0, first), header.substr(first)}) {
      if (part.empty()) continue;
      EXPECT_GT(::send(connection.get(), part.data(), part.size(), MSG_NOSIGNAL), 0);
    }
    std::array<char, 9> greeting{};
    EXPECT_EQ(::recv(connection.get(), greeting.data(), greeting.size(), MSG_WAITALL), 9) << first;
    EXPECT_EQ(greeting[3], 4) << "SETTINGS";
  }
  const Descriptor other = Connect(), none = Connect();
  for (const auto& [socket, text] : std::vector<std::pair<const Descriptor*, std::string>>{
           {&other, "PROXY TCP4 203.0.113.9 10.0.0.1 40112 7070\r\n"}, {&none, "\x16\x03\x01 no header"}}) {
    EXPECT_GT(::send(socket->get(), text.data(), text.size(), MSG_NOSIGNAL), 0);
  }
  EXPECT_TRUE(Ends(none));
  std::array<char, 9> greeting{};
  EXPECT_EQ(::recv(other.get(), greeting.data(), greeting.size(), MSG_WAITALL), 9);
}

TEST(DoorListens, WrongAddressesAreSaid) {
  EXPECT_EQ(guard::Acceptor::Listen("127.0.0.1", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(guard::Acceptor::Listen("203.0.113.1:0", {}).status().code(), absl::StatusCode::kUnavailable);
  const auto first = guard::Acceptor::Listen("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(guard::Acceptor::Listen("127.0.0.1:" + std::to_string((*first)->port()), {}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(DoorListens, TakesIPv6WhereThereIsSome) {
  const auto listener = guard::Acceptor::Listen("[::1]:0", {});
  if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
  EXPECT_GT((*listener)->port(), 0);
}

}  // namespace
}  // namespace atl
