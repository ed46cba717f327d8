// SPDX-License-Identifier: Apache-2.0
// How long clients wait during a flood of connections (S29).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/guard/connection_table.h"

namespace atl::guard {
namespace {

// A flood of connections, and now and then one of another address.
class FloodedTable {
 public:
  using Address = std::function<std::string()>;
  // Plays a flood of `rate` connections a second in steps of a millisecond. About every half second `other` gives the
  // address of a further connection, which makes a call kHandshake after its turn. Returns how long each of these
  // waited for its turn, in seconds; infinite: it was not served, or ended before its call.
  static constexpr Duration kHandshake = Milliseconds(400);
  std::vector<double> Waits(int seconds, int rate, const Address& hostile, const Address& other) {
    std::vector<double> waits;
    std::map<uint64_t, std::pair<size_t, Instant>> waiting;  // ids of clients: place in `waits`, arrival
    std::map<uint64_t, std::pair<size_t, double>> served;    // place in `waits`, wait
    std::deque<std::pair<Instant, uint64_t>> calls;          // of clients, when they are due
    for (int ms = 0; ms < seconds * 1000; ++ms) {
      const Instant now = start_ + Milliseconds(ms);
      for (; !calls.empty() && calls.front().first <= now; calls.pop_front()) {
        const auto client = served.find(calls.front().second);
        if (client == served.end() || gone_.contains(client->first)) continue;
        EXPECT_EQ(table_.Called(client->first, "", now), ConnectionTable::Verdict::kAllowed);
        waits[client->second.first] = client->second.second;
        table_.Leave(client->first);
      }
      for (; made_ < 1024 + uint64_t(rate) * uint64_t(ms) / 1000; ++made_) Arrive(hostile(), now);
      if (ms % 503 == 250 && ms < seconds * 1000 - 500) {  // in no step with the turns
        waiting[Arrive(other(), now)] = {waits.size(), now};
        waits.push_back(std::numeric_limits<double>::infinity());
      }
      for (const ConnectionTable::Turn& turn : table_.TakeTurns(now, see_)) {
        if (const auto it = waiting.find(turn.id); it != waiting.end()) {
          served[turn.id] = {it->second.first, ToSeconds(now - it->second.second)};
          calls.emplace_back(now + kHandshake, turn.id);
        } else {
          handshakes_.emplace_back(now + Seconds(5), turn.id);
        }
      }
      for (; !handshakes_.empty() && handshakes_.front().first <= now; handshakes_.pop_front())
        table_.Leave(handshakes_.front().second);
    }
    return waits;
  }
  // A member has called from `address` before the flood; `allowed`: and is not revoked; `stays`: and stays connected.
  void Call(const std::string& address, bool allowed = true, bool stays = false) {
    const Instant before = start_ - Seconds(20) + Milliseconds(int64_t(10 * id_));
    const uint64_t id = Arrive(address, before);
    EXPECT_EQ(table_.TakeTurns(before, see_).size(), 1u);
    EXPECT_EQ(table_.Called(id, address, before), ConnectionTable::Verdict::kAllowed);
    if (allowed) table_.Allowed(id, before);
    if (!stays) table_.Leave(id);
  }

 private:
  uint64_t Arrive(const std::string& address, Instant now) {
    const ConnectionTable::Arrival arrival = table_.Arrive(++id_, address, now, see_);
    EXPECT_TRUE(arrival.admitted);
    if (arrival.gives_way) gone_.insert(*arrival.gives_way);
    return id_;
  }

  const Instant start_ = Instant{} + Seconds(100);
  const ConnectionTable::See see_ = [](uint64_t) { return ConnectionTable::Seen{}; };
  ConnectionTable table_{ConnectionLimits{}};
  uint64_t id_ = 0, made_ = 0;
  std::set<uint64_t> gone_;                              // gave way
  std::deque<std::pair<Instant, uint64_t>> handshakes_;  // which end unfinished
};

FloodedTable::Address EachOf(uint64_t addresses) {
  return [addresses, next = uint64_t{0}]() mutable { return std::to_string(++next % addresses); };
}
FloodedTable::Address New() {
  return [next = uint64_t{0}]() mutable { return "new " + std::to_string(++next); };
}

// S29: at 125 a second, that of all addresses, the flood alone would take every turn.
TEST(FloodedTableTest, ANewAddressIsServedAtOnce) {
  for (const int rate : {140, 300, 1000})
    EXPECT_THAT(FloodedTable().Waits(8, rate, EachOf(8), New()), testing::Each(testing::Le(0.02))) << rate;
}

TEST(FloodedTableTest, AnAddressThatComesAgainWaitsForEachOtherOnce) {
  const auto waits = FloodedTable().Waits(8, 300, EachOf(50), [] { return "other"; });
  EXPECT_THAT(waits, testing::Each(testing::Le(0.9)));
}

// S29: an attacker with a network of IPv6 has 65,536 narrower ones; a provider has as many of the former.
TEST(FloodedTableTest, OneNetworkDelaysNoOther) {
  const auto of_network = [next = 0]() mutable { return absl::StrFormat("2001:db8:7:%x::1", ++next % 0xffff); };
  const auto of_provider = [next = 0]() mutable { return absl::StrFormat("2001:db8:%x::1", ++next % 0xffff); };
  const auto of_ipv4 = [next = 0]() mutable { return absl::StrFormat("203.0.%d.1", ++next % 256); };
  for (const FloodedTable::Address& hostile :
       {FloodedTable::Address(of_network), FloodedTable::Address(of_provider), FloodedTable::Address(of_ipv4)}) {
    for (const int rate : {140, 1500}) {
      const auto client = [] { return std::string("198.51.100.7"); };
      EXPECT_THAT(FloodedTable().Waits(6, rate, hostile, client), testing::Each(testing::Le(0.03))) << rate;
    }
  }
}

// A client of the flood's own address, which has sent its hello, is found among hundreds of silent connections by a
// few looks at their sockets.
TEST(FloodedTableTest, TheOneThatSpokeIsServedBeforeTheSilentOnesOfItsAddress) {
  ConnectionTable table{ConnectionLimits{}};
  uint64_t id = 0, client = 0;
  int looks = 0;
  const auto see = [&](uint64_t at) {
    ++looks;
    return ConnectionTable::Seen{.unread = at == client ? 300u : 0u};
  };
  const auto play = [&](int ms) {
    const Instant now = Instant{} + Seconds(100) + Milliseconds(ms);
    EXPECT_TRUE(table.Arrive(++id, "address", now, see).admitted);
    return table.TakeTurns(now, see);
  };
  for (int ms = 0; ms < 1000; ++ms) (void)play(ms);
  client = id + 1;
  looks = 0;
  int ms = 1000;
  while (ms < 1100) {
    const auto turns = play(ms++);
    if (!turns.empty() && turns.front().id == client) break;
  }
  EXPECT_LE(ms, 1030) << "its address gets a turn in 20 ms";
  EXPECT_LE(looks, 300);
}

// Also one that was revoked, or has a few addresses.
TEST(FloodedTableTest, AMemberDelaysNoStranger) {
  for (const int rate : {140, 1000}) {
    FloodedTable table;
    for (const char* address : {"0", "1"}) table.Call(address);
    EXPECT_THAT(table.Waits(8, rate, EachOf(2), New()), testing::Each(testing::Le(0.05))) << rate;
  }
}

// The port has 124 places without the connections of members: fewer than the networks of the flood.
TEST(FloodedTableTest, WhoHasHadItsTurnFinishesItsHandshake) {
  FloodedTable table;
  for (int i = 0; i < 900; ++i) table.Call("member " + std::to_string(i), true, true);
  EXPECT_THAT(table.Waits(8, 1000, EachOf(150), New()), testing::Each(testing::Le(0.05)));
}

// S29: such as a worker that has lost its connection. An attacker with a network of IPv6 has addresses without end.
TEST(FloodedTableTest, TheAddressOfAMemberIsServedBeforeAnyOther) {
  FloodedTable table;
  table.Call("member");
  EXPECT_THAT(table.Waits(8, 1000, EachOf(1'000'000), [] { return "member"; }), testing::Each(testing::Le(0.03)));
}

TEST(FloodedTableTest, TheAddressOfARevokedMemberIsLikeAnyOther) {
  FloodedTable table;
  table.Call("revoked", false);
  const auto waits = table.Waits(8, 1000, EachOf(1'000'000), [] { return "revoked"; });
  EXPECT_GT(std::count_if(waits.begin(), waits.end(), [](double wait) { return wait > 1; }), 0);
}

TEST(FloodedTableTest, AmongNewAddressesTheNewestIsServedBeforeItGivesUp) {
  const auto waits = FloodedTable().Waits(20, 300, EachOf(1'000'000), New());
  const auto in_time = std::count_if(waits.begin(), waits.end(), [](double wait) { return wait <= 1; });
  EXPECT_GE(in_time, waits.size() / 5) << "a client that tries again gets in";
}

}  // namespace
}  // namespace atl::guard
