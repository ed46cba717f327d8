// SPDX-License-Identifier: Apache-2.0
#include "worker/island/mesh.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <future>

#include "absl/strings/escaping.h"
#include "tests/unit/worker/island/island_of_threads.h"
#include "worker/island/reception.h"
#include "worker/island/secret.h"

namespace atl {
namespace {

std::string HexOf(const Proof& proof) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(proof.bytes().data()), 32});
}

TEST(IslandSecret, ProofsAreThoseOfRfc4231) {
  // Test case 2, and case 6 with a key longer than a block.
  EXPECT_EQ(HexOf(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HexOf(HmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(IslandSecret, IsAnotherEachTime) {
  const auto one = MakeIslandSecret(), two = MakeIslandSecret();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->size(), 64u);
  EXPECT_NE(*one, *two);
  EXPECT_FALSE(HmacSha256(*one, "") == HmacSha256(*two, ""));
}

// Connects to the island and sends `bytes`. Returns the reply, until the connection is closed.
std::string SayAtTheDoor(const IslandOfThreads& island, const std::string& bytes) {
  const SystemClock clock;
  const Deadline deadline{clock, clock.Now() + Seconds(60)};
  const auto socket = ConnectTo("127.0.0.1", LocalPort(island.listener()), deadline);
  EXPECT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(SendAll(*socket, AsBytes(bytes), deadline).ok());
  std::string got;
  for (std::byte one{}; ReceiveAll(*socket, {&one, 1}, deadline).ok();) got.push_back(static_cast<char>(one));
  return got;
}

TEST(Mesh, StrangersAreRejectedWithoutDisturbance) {
  IslandOfThreads island(2);
  auto leader = std::async(std::launch::async, [&island] { return island.Meet(island.Place(0)); });
  const std::string http = SayAtTheDoor(island, "GET / HTTP/1.1\r\nHost: island\r\n\r\n");
  EXPECT_EQ(http.size(), 40u) << "the challenge and nothing more";
  // The right magic, then no proof: the reply of a rank without the secret.
  const std::string claim = SayAtTheDoor(island, "ATOLISL1" + std::string(112, 'x'));
  EXPECT_EQ(claim.size(), 40u + 48u);
  EXPECT_EQ(claim.substr(claim.size() - 32), std::string(32, '\0'));
  const auto follower = island.Meet(island.Place(1));
  EXPECT_TRUE(follower.ok()) << follower.status();
  const auto mesh = leader.get();
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_TRUE(mesh->next.open());
}

int OptionOf(const Descriptor& socket, int level, int option) {
  int value = -1;
  socklen_t length = sizeof(value);
  EXPECT_EQ(::getsockopt(socket.get(), level, option, &value, &length), 0);
  return value;
}

// A computing rank reads nothing from its neighbour for as long as tcp_island.h allows.
TEST(Mesh, KernelKeepsConnectionsToAStalledPeer) {
  IslandOfThreads island(2);
  auto leader = std::async(std::launch::async, [&island] { return island.Meet(island.Place(0)); });
  const auto follower = island.Meet(island.Place(1));
  const auto first = leader.get();
  ASSERT_TRUE(first.ok() && follower.ok()) << first.status() << follower.status();
  for (const Descriptor* socket : {&first->next, &first->spokes[1], &follower->previous, &follower->spokes[0]}) {
    EXPECT_EQ(OptionOf(*socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(OptionOf(*socket, SOL_SOCKET, SO_KEEPALIVE), 1) << "a machine that is gone is still found out";
  }
}

TEST(Mesh, RefusesASecretAVersionASizeAndARankThatAreNotTheIslands) {
  IslandOfThreads island(2);
  auto leader = std::async(std::launch::async, [&island] { return island.Meet(island.Place(0)); });
  const auto refusal = [&island](const std::function<void(IslandPlace&)>& change) {
    IslandPlace place = island.Place(1);
    change(place);
    const auto met = island.Meet(place);
    EXPECT_EQ(met.status().code(), absl::StatusCode::kFailedPrecondition) << met.status();
    return std::string(met.status().message());
  };
  EXPECT_NE(refusal([](IslandPlace& p) { p.secret = "some other secret, as long"; }).find("secret"), std::string::npos);
  EXPECT_NE(refusal([](IslandPlace& p) { p.program = "another"; }).find("version"), std::string::npos);
  EXPECT_NE(refusal([](IslandPlace& p) { p.world = 3; }).find("number"), std::string::npos);
  EXPECT_NE(refusal([](IslandPlace& p) { p.world = 3, p.rank = 2; }).find("number"), std::string::npos);
  EXPECT_TRUE(island.Meet(island.Place(1)).ok());
  EXPECT_TRUE(leader.get().ok());
}

TEST(Mesh, NamesTheRanksThatDoNotCome) {
  IslandOfThreads island(4);
  auto leader = std::async(std::launch::async, [&island] { return island.Meet(island.Place(0)); });
  const SystemClock real;
  const Deadline deadline{real, real.Now() + Seconds(60)};
  const auto first = ConnectTo("127.0.0.1", LocalPort(island.listener()), deadline);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(ProveAt(*first, IslandLink::kSpoke, 1, island.Place(1), deadline).ok());
  while (leader.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) island.clock.Advance(Seconds(1));
  const auto met = leader.get();
  EXPECT_EQ(met.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(met.status().message().find("2, 3 of the island's 4 did not connect within 300 s"), std::string::npos)
      << met.status();
}

TEST(Mesh, StopsWaitingWhenItIsNoLongerWanted) {
  IslandOfThreads island(2);
  const auto met = MeetAsLeader(island.listener(), island.Place(0), island.limits, island.clock,
                                [] { return absl::CancelledError("SIGTERM"); });
  EXPECT_EQ(met.status().code(), absl::StatusCode::kCancelled);
}

TEST(Mesh, RefusesAPlaceThatIsNone) {
  IslandOfThreads island(2);
  for (const auto& change : std::vector<std::function<void(IslandPlace&)>>{
           [](IslandPlace& p) { p.rank = 2; }, [](IslandPlace& p) { p.world = 1; },
           [](IslandPlace& p) { p.world = limits::kIslandRanks + 1; }, [](IslandPlace& p) { p.secret = "short"; }}) {
    IslandPlace place = island.Place(1);
    change(place);
    EXPECT_EQ(island.Meet(place).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace atl
