// Calls that are refused where they are read (S20): how many a second, and who is not crowded out; then over real
// sockets.
#include "common/rpc/call_brake.h"

#include <gtest/gtest.h>

#include "common/rpc/server.h"
#include "tests/unit/common/rpc/one_call.h"

namespace atl {
namespace {

constexpr Instant kStart{1'000'000'000'000};
constexpr CallBrake::Connection kA = 1, kB = 2;

TEST(CallBrake, AConnectionBeginsOnlySoManyCallsInASecond) {
  CallBrake brake({.per_connection = 3, .all = 100, .always = 1});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(brake.Begin(kA, kStart).ok());
  EXPECT_FALSE(brake.Refused(kA, kStart));
  EXPECT_EQ(brake.Begin(kA, kStart).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(brake.Begin(kB, kStart).ok());
  EXPECT_TRUE(brake.Refused(kA, kStart));
  EXPECT_FALSE(brake.Refused(kB, kStart));
  EXPECT_TRUE(brake.Begin(kA, kStart + Seconds(1)).ok());
}

TEST(CallBrake, WhoCallsSeldomIsNotCrowdedOut) {
  CallBrake brake({.per_connection = 100, .all = 10, .always = 2});
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(brake.Begin(kA, kStart).ok());
  EXPECT_FALSE(brake.Begin(kA, kStart).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(brake.Begin(kB, kStart).ok());
  EXPECT_FALSE(brake.Begin(kB, kStart).ok());
}

TEST(CallBrake, ARefusalIsRememberedForASecondMore) {
  CallBrake brake({.per_connection = 1, .all = 0, .always = 1});
  EXPECT_TRUE(brake.Begin(kA, kStart).ok());
  EXPECT_FALSE(brake.Begin(kA, kStart).ok());
  EXPECT_TRUE(brake.Refused(kA, kStart + Milliseconds(1900)));
  EXPECT_FALSE(brake.Refused(kA, kStart + Milliseconds(2900)));
}

TEST(CallBrake, RefusedConnectionsAreEndedWithTheirNextCall) {
  const auto server =
      *Server::Start({.connections = {.calls_per_second = 1'000'000}},
                     ServerSecurity::PlaintextLoopback({.per_connection = 20, .all = 100, .always = 5}), {});
  grpc::ChannelArguments own;
  own.SetInt("grpc.use_local_subchannel_pool", 1);
  const std::string address = "127.0.0.1:" + std::to_string(server->port());
  const auto channel = [&] { return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own); };
  const auto fast = channel(), other = channel();
  int refused = 0;
  for (int i = 0; i < 100'000 && server->Connections().cut == 0; ++i)
    refused += OneCall(fast, kHealthMethod, true).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
  EXPECT_GE(refused, 1);
  EXPECT_GE(server->Connections().cut, 1u);
  EXPECT_TRUE(OneCall(other, kHealthMethod, true).ok());
}

}  // namespace
}  // namespace atl
