// Who may hold a connection (S20, S29), and who may not any more.
#include "common/rpc/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

Instant At(double seconds) { return Instant{} + Nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

Caller By(const std::string& token) {
  return std::make_shared<const CertificateFacts>(CertificateFacts{.identity = {Role::kWorker, "w", token}});
}
Certificates Of(const std::string& token) {
  return [token](const CertificateFacts& facts) { return facts.identity.token == token; };
}

class ConnectionTableTest : public testing::Test {
 protected:
  // A connection from port `id` of the address.
  ConnectionTable::Arrival Arrive(uint64_t id, double seconds, const std::string& address = "a") {
    return table_.Arrive(id, address, Endpoint(id, address), At(seconds), see_);
  }
  // Of one that is served. The connection, when it has to be ended.
  std::optional<uint64_t> Call(uint64_t id, double seconds, const std::string& address = "a") {
    (void)Turns(seconds);
    const auto ended = table_.Called(Endpoint(id, address), nullptr, At(seconds));
    if (!ended) return std::nullopt;
    EXPECT_EQ(ended->fault, ConnectionTable::Fault::kTooFast);
    return ended->id;
  }
  using Turn = ConnectionTable::Turn;
  using Way = ConnectionTable::Way;
  std::vector<Turn> Turns(double seconds) { return table_.TakeTurns(At(seconds), see_); }
  static std::string Endpoint(uint64_t id, const std::string& address) { return address + ":" + std::to_string(id); }

  std::map<uint64_t, ConnectionTable::Seen> seen_;  // of those that did more than greet
  const ConnectionTable::See see_ = [this](uint64_t id) {
    const auto more = seen_.find(id);
    return more == seen_.end() ? ConnectionTable::Seen{.unread = 33} : more->second;
  };
  ConnectionTable table_{{.connections = 4, .per_address = 3, .without_call = Seconds(30), .calls_per_second = 5}};
};

TEST(EndpointOfPeer, IsTheSameForSocketsAndPeers) {
  EXPECT_EQ(EndpointOfPeer("ipv4:1.2.3.4:5"), "1.2.3.4:5");
  EXPECT_EQ(EndpointOfPeer("ipv6:%5B2001:db8::1%5D:5"), "2001:db8::1:5");
  EXPECT_EQ(EndpointOfPeer("ipv6:[::1]:5"), "::1:5");
  EXPECT_EQ(EndpointOfPeer("ipv6:%5Bfe80::1%252%5D:5"), "fe80::1:5");  // of the second interface
  EXPECT_EQ(EndpointOfPeer("ipv6:[fe80::1%25eth0]:5"), "fe80::1:5");
  EXPECT_EQ(EndpointOfPeer("nothing"), "nothing");
}

TEST_F(ConnectionTableTest, TheOldestThatHasMadeNoCallGivesWay) {
  for (uint64_t id = 1; id <= 2; ++id) EXPECT_TRUE(Arrive(id, 0).admitted);
  for (uint64_t id = 3; id <= 4; ++id) EXPECT_TRUE(Arrive(id, 0, "b").admitted);
  EXPECT_EQ(Call(1, 1), std::nullopt);
  const ConnectionTable::Arrival fifth = Arrive(5, 2, "c");
  EXPECT_TRUE(fifth.admitted);
  EXPECT_THAT(fifth.gives_way, Optional(2u));
  EXPECT_EQ(table_.size(), 4u);
}

TEST_F(ConnectionTableTest, WhoHasCalledIsNeverPushedOut) {
  for (uint64_t id = 1; id <= 2; ++id) Arrive(id, 0);
  for (uint64_t id = 3; id <= 4; ++id) Arrive(id, 0, "b");
  for (uint64_t id = 1; id <= 4; ++id) Call(id, 1, id <= 2 ? "a" : "b");
  const ConnectionTable::Arrival fifth = Arrive(5, 2, "c");
  EXPECT_FALSE(fifth.admitted);
  EXPECT_EQ(fifth.gives_way, std::nullopt);
  EXPECT_EQ(table_.GiveWay(see_), std::nullopt);
  table_.Leave(1);
  EXPECT_TRUE(Arrive(6, 3, "c").admitted);
}

TEST_F(ConnectionTableTest, AnAddressTakesItsShareAndPushesOnlyItsOwn) {
  Arrive(1, 0, "b");
  for (uint64_t id = 2; id <= 4; ++id) EXPECT_TRUE(Arrive(id, 0).admitted);
  table_.Leave(1);
  Arrive(5, 0, "b");
  EXPECT_EQ(table_.From("a"), 3u);
  EXPECT_THAT(Arrive(6, 1).gives_way, Optional(2u)) << "5 is of another address";
  for (const uint64_t id : {uint64_t{3}, uint64_t{4}, uint64_t{6}}) Call(id, 1);
  EXPECT_FALSE(Arrive(7, 2).admitted) << "though 5 has made no call";
  EXPECT_EQ(table_.From("a"), 3u);
}

TEST_F(ConnectionTableTest, WithoutACallTheTimeRunsOut) {
  EXPECT_EQ(table_.NextSilent(), kNever);
  Arrive(1, 0);
  Arrive(2, 10);
  Arrive(3, 20);
  Call(2, 11);
  EXPECT_EQ(table_.NextSilent(), At(30));
  EXPECT_THAT(table_.TakeSilent(At(29.9)), IsEmpty());
  EXPECT_THAT(table_.TakeSilent(At(60)), ElementsAre(1, 3));
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.NextSilent(), kNever);
}

TEST_F(ConnectionTableTest, CallsThatComeTooFastEndTheConnection) {
  Arrive(1, 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Call(1, 0.1), std::nullopt);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Call(1, 1.2), std::nullopt) << "another second";
  EXPECT_THAT(Call(1, 1.3), Optional(1u));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(Call(1, 1.3), std::nullopt) << "calls on their way change nothing";
}

TEST_F(ConnectionTableTest, EverybodyIsServedAtOnce) {
  Arrive(1, 0);
  Arrive(2, 0, "b");
  EXPECT_LE(table_.NextTurn(), At(0));
  seen_[2].unread = 1'000'000;
  EXPECT_THAT(Turns(0), ElementsAre(Turn{1, Way::kServed}, Turn{2, Way::kServed}));
  EXPECT_THAT(Turns(0), IsEmpty());
  EXPECT_EQ(table_.NextTurn(), kNever);
}

TEST_F(ConnectionTableTest, AfterCallsThatComeTooFastAnAddressIsServedOneByOne) {
  Arrive(1, 0);
  EXPECT_THAT(Turns(0), ElementsAre(Turn{1, Way::kServed}));
  EXPECT_THAT(table_.CalledTooFast("a:1", At(1)), Optional(1u));
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 1);
  Arrive(5, 1, "b");
  EXPECT_THAT(Turns(1), ElementsAre(Turn{5, Way::kServed})) << "others do not wait";
  EXPECT_EQ(table_.NextTurn(), At(1.02));
  EXPECT_THAT(Turns(1.02), ElementsAre(Turn{2, Way::kServed}));
  EXPECT_EQ(table_.NextTurn(), At(1.02) + Milliseconds(25));
  EXPECT_THAT(Turns(1.04), IsEmpty());
  EXPECT_THAT(Turns(1.05), ElementsAre(Turn{3, Way::kServed}));
  table_.Leave(4);  // its end was seen before its turn
  EXPECT_EQ(table_.NextTurn(), kNever);
  Arrive(6, 10.99);
  EXPECT_EQ(table_.NextTurn(), At(11)) << "ten seconds later it is over";
  EXPECT_THAT(Turns(11), ElementsAre(Turn{6, Way::kServed}));
}

TEST_F(ConnectionTableTest, ANetworkOfIpv6IsSlowedAsAnAddressIs) {
  table_.CalledTooFast("2001:db8::1:7", At(1));  // port 7
  EXPECT_TRUE(Arrive(9, 1, "2001:db8::/64").admitted);
  EXPECT_TRUE(Arrive(10, 1, "2001:db8:0:1::/64").admitted);
  EXPECT_THAT(Turns(1), ElementsAre(Turn{10, Way::kServed})) << "another network's";
  EXPECT_EQ(table_.NextTurn(), At(1.02));
}

// Calls of a connection that was ended arrive late, when its port has come again and waits for its turn.
TEST_F(ConnectionTableTest, ALateCallIsNotOfWhoWaitsAtItsPort) {
  table_.CalledTooFast("a:1", At(1));
  EXPECT_TRUE(Arrive(9, 1).admitted);
  EXPECT_EQ(table_.Called("a:9", By("token"), At(1.001)), std::nullopt);
  EXPECT_EQ(table_.CalledTooFast("a:9", At(1.002)), std::nullopt);
  EXPECT_THAT(table_.End(Of("token")), IsEmpty());
  EXPECT_EQ(table_.NextTurn(), At(1.02));
  EXPECT_THAT(Turns(1.02), ElementsAre(Turn{9, Way::kServed}));
  EXPECT_EQ(table_.NextSilent(), At(31)) << "it has made no call yet";
  EXPECT_EQ(Call(9, 1.5), std::nullopt);
  EXPECT_EQ(table_.NextSilent(), kNever);
}

TEST_F(ConnectionTableTest, WhoSpeaksBeforeItsTurnIsEnded) {
  EXPECT_EQ(table_.CalledTooFast("a:1", At(1)), std::nullopt) << "it has left, and its address is slowed all the same";
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 1);
  seen_[2].unread = 4097;
  seen_[3].unread = 4096;
  EXPECT_THAT(Turns(1.5), ElementsAre(Turn{2, Way::kTooFast}, Turn{3, Way::kServed})) << "a greeting is no call";
  EXPECT_EQ(table_.size(), 2u);
}

TEST_F(ConnectionTableTest, WhoHasLeftTakesNoTurn) {
  table_.CalledTooFast("a:1", At(1));
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 1);
  seen_[2].left = seen_[3].left = true;
  EXPECT_THAT(Turns(1.5), ElementsAre(Turn{2, Way::kLeft}, Turn{3, Way::kLeft}, Turn{4, Way::kServed}));
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.NextTurn(), kNever);
}

TEST_F(ConnectionTableTest, WhoHasLeftGivesWayBeforeWhoWaits) {
  Arrive(1, 0);
  Turns(0);
  table_.CalledTooFast("a:0", At(1));
  for (uint64_t id = 2; id <= 3; ++id) Arrive(id, 1);
  seen_[3].left = true;
  EXPECT_THAT(Arrive(4, 1).gives_way, Optional(3u)) << "nobody is there any more";
  EXPECT_THAT(Arrive(5, 1).gives_way, Optional(1u)) << "it was served and has made no call";
  EXPECT_THAT(Arrive(6, 1).gives_way, Optional(2u)) << "the oldest";
}

TEST_F(ConnectionTableTest, APortThatComesAgainIsTheNewerConnection) {
  table_.Arrive(1, "a", "a:9", At(0), see_);
  table_.Arrive(2, "a", "a:9", At(1), see_);  // its predecessor's end has not been seen yet
  Turns(1);
  table_.Leave(1);
  EXPECT_EQ(table_.Called("a:9", nullptr, At(2)), std::nullopt);
  EXPECT_EQ(table_.NextSilent(), kNever);
}

// S7.
TEST_F(ConnectionTableTest, ARevokedCertificateKeepsNoConnection) {
  for (uint64_t id = 1; id <= 3; ++id) Arrive(id, 0);
  Arrive(4, 0, "b");
  Turns(0);
  table_.Called("a:1", By("t"), At(1));
  table_.Called("a:2", By("u"), At(1));
  table_.Called("a:3", nullptr, At(1));
  table_.Called("b:4", By("t"), At(1));
  EXPECT_THAT(table_.End(Of("t")), ElementsAre(1u, 4u));
  EXPECT_THAT(table_.End(Of("t")), IsEmpty());
  EXPECT_EQ(table_.size(), 2u);
  // A call that was allowed just before the revocation begins after it.
  Arrive(5, 2, "c");
  Turns(2);
  EXPECT_EQ(table_.Called("c:5", By("t"), At(2)), (ConnectionTable::Ended{5, ConnectionTable::Fault::kRevoked}));
  EXPECT_EQ(table_.size(), 2u);
  // Without a certificate it is nobody's.
  EXPECT_THAT(table_.End([](const CertificateFacts&) { return true; }), ElementsAre(2u));
  EXPECT_EQ(table_.Called("a:3", nullptr, At(3)), std::nullopt);
}

}  // namespace
}  // namespace atl
