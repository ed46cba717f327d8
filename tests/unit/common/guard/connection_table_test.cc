// SPDX-License-Identifier: Apache-2.0
// Which connections are accepted (S20, S29, S34), and which are ended.
#include "common/guard/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace atl::guard {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

Instant At(double seconds) { return Instant{} + Nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

class ConnectionTableTest : public testing::Test {
 protected:
  ConnectionTable::Arrival Arrive(uint64_t id, double seconds, const std::string& address = "a") {
    return table_.Arrive(id, address, At(seconds), see_);
  }
  // A call on an accepted connection. Returns whether the connection may continue.
  bool Call(uint64_t id, double seconds) {
    (void)Turns(seconds);
    return table_.Called(id, "", At(seconds)) == ConnectionTable::Verdict::kAllowed;
  }
  // Slows an address from this time on.
  void Slow(const std::string& address, double seconds) {
    constexpr uint64_t kFlooder = 1000;
    ASSERT_TRUE(Arrive(kFlooder, seconds, address).admitted);
    while (Call(kFlooder, seconds)) {
    }
  }
  using Turn = ConnectionTable::Turn;
  using Way = ConnectionTable::Way;
  std::vector<Turn> Turns(double seconds) { return table_.TakeTurns(At(seconds), see_); }

  std::map<uint64_t, ConnectionTable::Seen> seen_;  // connections that did more than the greeting
  const ConnectionTable::See see_ = [this](uint64_t id) {
    const auto more = seen_.find(id);
    return more == seen_.end() ? ConnectionTable::Seen{.unread = 33} : more->second;
  };
  ConnectionTable table_{
      {.connections = 4, .per_address = 3, .without_call = Seconds(30), .calls_per_second = 5, .calls_at_first = 2}};
};

TEST_F(ConnectionTableTest, ABurstEndsAlsoWhenItsConnectionsComeOneByOne) {
  for (int i = 1; i < ConnectionTable::kBurst; ++i) EXPECT_FALSE(Arrive(uint64_t(i), 0.0001 * i).ends_burst) << i;
  EXPECT_TRUE(Arrive(100, 0.0199).ends_burst);
  for (int i = 1; i < ConnectionTable::kBurst; ++i) EXPECT_FALSE(Arrive(uint64_t(200 + i), 0.0401).ends_burst) << i;
  EXPECT_TRUE(Arrive(300, 0.0401).ends_burst);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(Arrive(uint64_t(400 + i), 1 + 0.001 * i).ends_burst) << "1,000 a second";
}

TEST_F(ConnectionTableTest, TheOldestThatHasMadeNoCallGivesWay) {
  for (uint64_t id = 1; id <= 2; ++id) EXPECT_TRUE(Arrive(id, 0).admitted);
  for (uint64_t id = 3; id <= 4; ++id) EXPECT_TRUE(Arrive(id, 0, "b").admitted);
  EXPECT_TRUE(Call(1, 1));
  EXPECT_TRUE(Call(3, 1));
  const ConnectionTable::Arrival fifth = Arrive(5, 2, "c");
  EXPECT_TRUE(fifth.admitted);
  EXPECT_THAT(fifth.gives_way, Optional(2u));
  EXPECT_EQ(table_.size(), 4u);
}

// A few addresses fill the port and come again at once when a connection is ended.
TEST_F(ConnectionTableTest, AFewAddressesDoNotPushOutAnother) {
  ConnectionTable table({.connections = 256, .per_address = 128});
  const auto see = [](uint64_t) { return ConnectionTable::Seen{}; };
  uint64_t id = 0;
  double now = 0;
  const auto flood = [&](int arrivals) {
    for (int i = 0; i < arrivals; ++i, now += 1e-4) {
      ++id;
      table.Arrive(id, "flooder " + std::to_string(id % 3), At(now), see);
      (void)table.TakeTurns(At(now), see);
    }
  };
  flood(2000);
  for (int client = 0; client < 20; ++client) {
    const uint64_t own = ++id;
    ASSERT_TRUE(table.Arrive(own, "client", At(now), see).admitted);
    now += 0.008;  // a turn of all
    EXPECT_THAT(table.TakeTurns(At(now), see), testing::Contains(Turn{own, Way::kServed})) << "at once";
    flood(5000);  // half a second
    EXPECT_EQ(table.From("client"), 1u) << "it stays through its handshake";
    EXPECT_EQ(table.Called(own, "", At(now)), ConnectionTable::Verdict::kAllowed);
    table.Leave(own);
  }
}

TEST_F(ConnectionTableTest, OfAFullAddressTheOldestThatHasSentNothingGivesWay) {
  for (uint64_t id = 1; id <= 3; ++id) Arrive(id, 0);
  seen_[2].unread = 0;
  EXPECT_THAT(Arrive(4, 0).gives_way, Optional(2u)) << "the others wait with their greeting";
  EXPECT_THAT(Arrive(5, 0).gives_way, Optional(1u));
  (void)Turns(0);
  EXPECT_THAT(Arrive(6, 0).gives_way, Optional(3u)) << "the oldest served one";
}

TEST_F(ConnectionTableTest, AnAddressInTurnsIsServedByGreeting) {
  Slow("a", 1);
  for (uint64_t id = 1; id <= 3; ++id) Arrive(id, 1);
  seen_[1].unread = seen_[2].unread = 0;
  EXPECT_THAT(Turns(1.02), ElementsAre(Turn{3, Way::kServed}));
  EXPECT_THAT(Turns(1.05), ElementsAre(Turn{1, Way::kServed}));
}

TEST_F(ConnectionTableTest, AnIdentityHasItsShare) {
  ConnectionTable table({.connections = 8, .per_address = 8, .per_identity = 2});
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(table.Arrive(id, std::to_string(id), At(0), see_).admitted);
  using Verdict = ConnectionTable::Verdict;
  EXPECT_EQ(table.Called(1, "worker/eve", At(0)), Verdict::kAllowed);
  EXPECT_EQ(table.Called(2, "worker/eve", At(0)), Verdict::kAllowed);
  EXPECT_EQ(table.Called(1, "worker/eve", At(0)), Verdict::kAllowed) << "another call of the first";
  EXPECT_EQ(table.Called(3, "worker/eve", At(0)), Verdict::kTooMany);
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.Called(4, "worker/ann", At(0)), Verdict::kAllowed);
  table.Leave(2);
  ASSERT_TRUE(table.Arrive(5, "5", At(0), see_).admitted);
  EXPECT_EQ(table.Called(5, "worker/eve", At(0)), Verdict::kAllowed);
}

TEST_F(ConnectionTableTest, WhoHasCalledIsNeverPushedOut) {
  for (uint64_t id = 1; id <= 2; ++id) Arrive(id, 0);
  for (uint64_t id = 3; id <= 4; ++id) Arrive(id, 0, "b");
  for (uint64_t id = 1; id <= 4; ++id) Call(id, 1);
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
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Call(1, 0)) << "what a new one may";
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Call(1, 0.2 * (i + 1))) << "in the long run";
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Call(1, 9)) << "no more is saved up";
  EXPECT_FALSE(Call(1, 9.1));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_FALSE(Call(1, 1.3)) << "later calls change nothing";
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
  while (Call(1, 1)) {
  }
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
  Slow("2001:db8::1", 1);
  EXPECT_TRUE(Arrive(9, 1, "2001:db8::2").admitted);
  EXPECT_TRUE(Arrive(10, 1, "2001:db8:0:1::1").admitted);
  EXPECT_THAT(Turns(1), ElementsAre(Turn{10, Way::kServed})) << "another network's";
  EXPECT_EQ(table_.NextTurn(), At(1.02));
}

TEST_F(ConnectionTableTest, WhoSpeaksBeforeItsTurnIsEnded) {
  Slow("a", 1);
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 1);
  seen_[2].unread = 4097;
  seen_[3].unread = 4096;
  EXPECT_THAT(Turns(1.5), ElementsAre(Turn{2, Way::kTooFast}, Turn{3, Way::kServed})) << "a greeting is no call";
  EXPECT_EQ(table_.size(), 2u);
}

TEST_F(ConnectionTableTest, WhoHasLeftTakesNoTurn) {
  Slow("a", 1);
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 1);
  seen_[2].left = seen_[3].left = true;
  EXPECT_THAT(Turns(1.5), ElementsAre(Turn{2, Way::kLeft}, Turn{3, Way::kLeft}, Turn{4, Way::kServed}));
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.NextTurn(), kNever);
}

TEST_F(ConnectionTableTest, WhoHasLeftGivesWayBeforeWhoWaits) {
  Arrive(1, 0);
  Turns(0);
  Slow("a", 1);
  for (uint64_t id = 2; id <= 3; ++id) Arrive(id, 1);
  seen_[3].left = true;
  EXPECT_THAT(Arrive(4, 1).gives_way, Optional(3u)) << "nobody is there any more";
  EXPECT_THAT(Arrive(5, 1).gives_way, Optional(1u)) << "it was served and has made no call";
  EXPECT_THAT(Arrive(6, 1).gives_way, Optional(2u)) << "the oldest";
}

TEST_F(ConnectionTableTest, BeyondABurstConnectionsAreServedAtAPace) {
  ConnectionTable table({.at_once = 2, .pace = Milliseconds(100)});
  for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(table.Arrive(id, "a", At(1), see_).admitted);
  ASSERT_TRUE(table.Arrive(6, "b", At(1), see_).admitted);
  EXPECT_THAT(table.TakeTurns(At(1), see_),
              ElementsAre(Turn{1, Way::kServed}, Turn{2, Way::kServed}, Turn{3, Way::kServed}, Turn{6, Way::kServed}));
  EXPECT_EQ(table.NextTurn(), At(1.1));
  EXPECT_THAT(table.TakeTurns(At(1.1), see_), ElementsAre(Turn{4, Way::kServed}));
  EXPECT_THAT(table.TakeTurns(At(1.15), see_), IsEmpty());
  EXPECT_THAT(table.TakeTurns(At(1.2), see_), ElementsAre(Turn{5, Way::kServed}));
  EXPECT_EQ(table.NextTurn(), kNever);
  for (uint64_t id = 7; id <= 9; ++id) ASSERT_TRUE(table.Arrive(id, "a", At(9), see_).admitted);
  EXPECT_EQ(table.TakeTurns(At(9), see_).size(), 3u) << "it is whole again";
}

// Otherwise handshakes of many addresses would take all processor time.
TEST_F(ConnectionTableTest, BeyondABurstAllAddressesTogetherAreServedAtAPace) {
  ConnectionTable table({.connections = 1000, .all_at_once = 3, .pace_of_all = Seconds(1)});
  for (uint64_t id = 1; id <= 6; ++id) EXPECT_TRUE(table.Arrive(id, std::to_string(id), At(10), see_).admitted);
  const auto served = [&](double seconds) { return table.TakeTurns(At(seconds), see_).size(); };
  EXPECT_EQ(served(10), 4u) << "three at once, and one at the pace";
  EXPECT_EQ(table.NextTurn(), At(11));
  EXPECT_EQ(served(10.9), 0u);
  EXPECT_EQ(served(11), 1u);
  EXPECT_EQ(served(20), 1u);
}

// A port full of connections from one address each: the oldest stranger's gives way, not a member's two.
TEST_F(ConnectionTableTest, MembersDoNotGiveWayToStrangers) {
  ConnectionTable table({.connections = 16});
  ASSERT_TRUE(table.Arrive(1, "member", At(1), see_).admitted);
  ASSERT_EQ(table.Called(1, "w1", At(1)), ConnectionTable::Verdict::kAllowed);
  table.Allowed(1, At(1));
  for (const uint64_t id : {2U, 3U}) ASSERT_TRUE(table.Arrive(id, "member", At(2), see_).admitted);
  for (uint64_t id = 4; id < 100; ++id) ASSERT_TRUE(table.Arrive(id, std::to_string(id), At(3), see_).admitted);
  EXPECT_EQ(table.From("member"), 3u);
  for (uint64_t id = 100; id < 120; ++id) ASSERT_TRUE(table.Arrive(id, "member", At(4), see_).admitted);
  EXPECT_EQ(table.size(), 16u) << "among members' the oldest without a call gives way";
}

TEST_F(ConnectionTableTest, FaultsSlowTheirAddress) {
  ConnectionTable table({.faults_per_second = 2});
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(table.Arrive(id, "a", At(0), see_).admitted);
  (void)table.TakeTurns(At(0), see_);
  table.Faulted(1, At(0.1));
  table.Faulted(2, At(0.2));
  table.Arrive(5, "a", At(0.3), see_);
  EXPECT_THAT(table.TakeTurns(At(0.3), see_), ElementsAre(Turn{5, Way::kServed})) << "two are within the limit";
  table.Faulted(3, At(0.4));
  table.Arrive(6, "a", At(0.4), see_);
  table.Arrive(7, "b", At(0.4), see_);
  EXPECT_THAT(table.TakeTurns(At(0.4), see_), ElementsAre(Turn{7, Way::kServed}));
  EXPECT_EQ(table.size(), 4u);
}

TEST_F(ConnectionTableTest, FaultsThatComeSeldomSlowNothing) {
  ConnectionTable table({.faults_per_second = 2});
  for (uint64_t id = 1; id <= 9; ++id) {
    ASSERT_TRUE(table.Arrive(id, "a", At(double(id)), see_).admitted);
    EXPECT_THAT(table.TakeTurns(At(double(id)), see_), ElementsAre(Turn{id, Way::kServed}));
    table.Faulted(id, At(double(id)));
  }
}

TEST_F(ConnectionTableTest, AProxiedConnectionCountsForTheAddressOfItsHeader) {
  const auto move = [&](uint64_t id, const std::string& address) { return table_.Move(id, address, At(0), see_); };
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(Arrive(id, 0, "").admitted) << "a proxy has no share of its own";
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(move(id, "a").turn);
  EXPECT_EQ(table_.From("a"), 3u);
  EXPECT_EQ(table_.From(""), 1u);
  EXPECT_THAT(move(4, "a").gives_way, Optional(1u)) << "a has its share";
  EXPECT_EQ(table_.From("a"), 3u);
  for (uint64_t id = 2; id <= 4; ++id) EXPECT_TRUE(Call(id, 1));
  EXPECT_TRUE(Arrive(5, 1, "").admitted);
  const ConnectionTable::Moved refused = move(5, "a");
  EXPECT_FALSE(refused.turn || refused.gives_way) << "all have made calls";
  EXPECT_EQ(table_.size(), 3u);
  EXPECT_FALSE(move(5, "b").turn) << "it is out of the table";
  for (uint64_t id = 2; id <= 4; ++id) table_.Leave(id);
  for (uint64_t id = 6; id <= 8; ++id) ASSERT_TRUE(Arrive(id, 2, "c").admitted);
  EXPECT_FALSE(move(6, "c").turn) << "named twice, it is the oldest of its full address";
  EXPECT_EQ(table_.size(), 2u);
}

TEST_F(ConnectionTableTest, OneAddressBehindAProxyDelaysNoOther) {
  ConnectionTable table({.connections = 300, .per_address = 200, .at_once = 2, .pace = Milliseconds(100)});
  const auto turn = [&](uint64_t id, const char* address) { return table.Move(id, address, At(0), see_).turn; };
  for (uint64_t id = 1; id <= 100; ++id) {
    ASSERT_TRUE(table.Arrive(id, "", At(0), see_).admitted);
    EXPECT_THAT(table.TakeTurns(At(0), see_), ElementsAre(Turn{id, Way::kServed}));
  }
  EXPECT_EQ(turn(1, "a"), At(0));
  EXPECT_EQ(turn(2, "a"), At(0));
  for (uint64_t id = 3; id <= 99; ++id) EXPECT_GE(turn(id, "a"), At(0.1 * double(id - 2) - 0.11)) << id;
  EXPECT_EQ(turn(100, "b"), At(0));
}

// Connections that came and went have turns that are not taken.
TEST_F(ConnectionTableTest, TheQueueOfAnAddressBehindAProxyIsBounded) {
  ConnectionTable table({.connections = 300, .per_address = 10, .at_once = 2, .pace = Milliseconds(100)});
  uint64_t id = 0;
  const auto moved = [&](double seconds) {
    EXPECT_TRUE(table.Arrive(++id, "", At(seconds), see_).admitted);
    return table.Move(id, "a", At(seconds), see_).turn;
  };
  for (int i = 0; i < 1000; ++i) {
    if (moved(1)) table.Leave(id);
  }
  EXPECT_EQ(moved(1), std::nullopt) << "its queue is full for the next second";
  EXPECT_THAT(moved(1.3), Optional(testing::Le(At(2.3))));
}

// Each connection of the flood may be from another address of one network.
TEST_F(ConnectionTableTest, TheConnectionsOfOneNetworkGiveWayFirst) {
  ConnectionTable table({.connections = 16});
  uint64_t id = 0;
  const auto arrive = [&](const std::string& address) {
    EXPECT_TRUE(table.Arrive(++id, address, At(1), see_).admitted);
  };
  for (const char* client : {"198.51.100.1", "198.51.100.1", "2001:db9::1"}) arrive(client);
  for (int i = 0; i < 100; ++i) arrive("2001:db8:" + std::to_string(i) + "::1");
  for (int i = 0; i < 100; ++i) arrive("203.0." + std::to_string(i) + ".1");
  EXPECT_EQ(table.From("198.51.100.1"), 2u);
  EXPECT_EQ(table.From("2001:db9::1"), 1u);
}

TEST_F(ConnectionTableTest, AnAnsweredConnectionGivesWay) {
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(Arrive(id, 0, std::to_string(id)).admitted);
    ASSERT_TRUE(Call(id, 0));
  }
  EXPECT_FALSE(Arrive(5, 0, "5").admitted);
  table_.Answered(3);
  EXPECT_THAT(Arrive(6, 0, "6").gives_way, Optional(3u));
  table_.Answered(4);
  EXPECT_THAT(table_.TakeSilent(At(40)), ElementsAre(6)) << "nothing more is expected of an answered one";
  table_.Answered(3);  // has ended
  EXPECT_EQ(table_.size(), 3u);
}

TEST_F(ConnectionTableTest, AMemberIsOneForAnHourAndUntilItIsRevoked) {
  ConnectionTable table({.connections = 3});
  uint64_t id = 0;
  const auto gives_way_first = [&](double seconds) {  // of "member" and two strangers, that of "member"
    const uint64_t members = ++id;
    (void)table.Arrive(members, "member", At(seconds), see_);
    for (const char* stranger : {"a", "b"}) (void)table.Arrive(++id, stranger, At(seconds), see_);
    const bool first = table.GiveWay(see_) == members;
    while (table.GiveWay(see_)) {
    }
    return first;
  };
  const auto call = [&](double seconds) {
    ASSERT_TRUE(table.Arrive(++id, "member", At(seconds), see_).admitted);
    ASSERT_EQ(table.Called(id, "w1", At(seconds)), ConnectionTable::Verdict::kAllowed);
    table.Allowed(id, At(seconds));
  };
  EXPECT_TRUE(gives_way_first(0)) << "the oldest";
  call(1);
  table.Leave(id);
  EXPECT_FALSE(gives_way_first(3600));
  EXPECT_TRUE(gives_way_first(3601));
  call(4000);
  table.Revoked(id);
  EXPECT_TRUE(gives_way_first(4001));
}

TEST_F(ConnectionTableTest, AMemberHasAFewAddresses) {
  ConnectionTable table({.connections = 8});
  uint64_t id = 0;
  const auto call = [&](const std::string& address, const std::string& identity) {
    const double now = double(++id);
    ASSERT_TRUE(table.Arrive(id, address, At(now), see_).admitted);
    ASSERT_EQ(table.Called(id, identity, At(now)), ConnectionTable::Verdict::kAllowed);
    table.Allowed(id, At(now));
    table.Leave(id);
  };
  call("good", "ann");
  for (int i = 0; i < 100; ++i) call("eve " + std::to_string(i), "eve");
  for (const char* address : {"good", "eve 99", "eve 0"})
    ASSERT_TRUE(table.Arrive(++id, address, At(200), see_).admitted);
  for (int i = 0; i < 6; ++i) (void)table.Arrive(++id, "stranger", At(200), see_);
  EXPECT_EQ(table.From("good"), 1u);
  EXPECT_EQ(table.From("eve 99"), 1u);
  while (table.From("stranger") > 1) table.GiveWay(see_);
  table.GiveWay(see_);
  table.GiveWay(see_);
  EXPECT_EQ(table.From("eve 0"), 0u) << "it counts as a stranger's";
  EXPECT_EQ(table.From("good"), 1u);
}

}  // namespace
}  // namespace atl::guard
