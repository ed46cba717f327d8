// SPDX-License-Identifier: Apache-2.0
// Decides which connections a listener keeps: limits in all, for each address and for each identity,
// which connection is ended when there are too many, and how addresses with too fast calls or faults
// are slowed down. Only decides; common/guard/acceptor.h has the sockets. Pure, single-threaded.
#ifndef ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_
#define ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/host_port.h"
#include "common/base/time.h"

namespace atl::guard {

struct ConnectionLimits {
  size_t connections = 1024;  // of a port at a time; beyond that one without a call ends, else the new one
  size_t per_address = 512;   // of them from one address, or --connections-per-address; the same happens beyond
  size_t per_identity = 128;  // of them with calls of one identity; a further one is ended at its first call
  Duration without_call = Seconds(30);  // a connection that makes no first call for that long is ended
  uint32_t calls_per_second = 500;      // of one connection, on average and in a burst; with more it is ended
  uint32_t calls_at_first = 64;         // calls that a new connection may make at once, as many as it may have open
  uint32_t faults_per_second = 20;      // of one address: failed handshakes and the like; then it is served slowly
  // Handshakes are as costly for the server as for the client. Behind a proxy, which has such limits, the two limits of
  // all addresses are not applied.
  uint32_t at_once = 64;                   // new connections of one address that are served at once
  Duration pace = Milliseconds(20);        // between further ones
  uint32_t all_at_once = 256;              // new connections of all addresses that are served at once
  Duration pace_of_all = Milliseconds(8);  // between further ones; while more wait, addresses take turns
  // After calls or faults from an address came too fast, the address is slowed for this time. Its new
  // connections are served one by one, at interval `turn`, and each at least `shown` after its arrival.
  // A connection that has sent more than `unserved_bytes` by then is ended, because a real client
  // waits for the server's settings before it sends calls.
  Duration slowed = Seconds(10);
  Duration turn = Milliseconds(25);
  Duration shown = Milliseconds(20);
  size_t unserved_bytes = 4096;
};

class ConnectionTable {
 public:
  explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

  // Visible state of a connection that is not served yet.
  struct Seen {
    size_t unread = 0;  // bytes received but not read
    bool left = false;  // the peer has closed its direction
  };
  using See = std::function<Seen(uint64_t)>;
  // After kBurst connections in kBurstTime, at once or one by one, others must wait for as long: at most
  // 3,200 a second are accepted. Accepting costs the server as much as connecting costs a client.
  static constexpr int kBurst = 64;
  static constexpr Duration kBurstTime = Milliseconds(20);
  struct Arrival {
    bool admitted = false;
    bool ends_burst = false;
    std::optional<uint64_t> gives_way;  // removed from the table; the caller must end its socket
  };
  // Adds a connection `id` (unique) from `address`, as NetworksOf reads it, or empty behind a proxy: then
  // only ConnectionLimits::connections applies to it until Move. Admitted connections wait for
  // their turn. Without room, one that has made no call gives way: of this address if the address is
  // full, else of the wide network with the most of them, in it of the narrower one with the most, then of the address
  // with the most, so that a few of them cannot push out the others.
  // Of one address the choice is the first of: among its oldest waiting ones, one that has left; the
  // oldest that is served, or has sent nothing; the oldest. When all have made calls, the new connection
  // is not admitted. `now` never decreases.
  Arrival Arrive(uint64_t id, const std::string& address, Instant now, const See& see);
  // Removes and returns a connection without a call, chosen as when the port is full; nullopt when
  // all have made calls. For a process that has no descriptor left.
  std::optional<uint64_t> GiveWay(const See& see);
  // The connection has ended. No effect if it is not in the table.
  void Leave(uint64_t id);
  enum class Way { kServed, kTooFast, kLeft };
  struct Turn {
    uint64_t id = 0;
    Way way = Way::kServed;  // others: removed from the table; the caller must end its socket
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  // Returns the connections with a due turn, by arrival; of an address first those that have sent something or have
  // left, among the oldest and the newest. If the pace of all allows fewer turns than connections wait, the next turn
  // is that of an address from which a member has called, except for one turn in four; then of the wide network served
  // longest ago, in it of the narrower one, then of the address; among those not served lately of the newest arrival,
  // because clients give up.
  std::vector<Turn> TakeTurns(Instant now, const See& see);
  // Earliest time at which TakeTurns may return something; kNever when no connection waits.
  Instant NextTurn() const { return waiting_.empty() ? kNever : next_turn_; }
  struct Moved {
    std::optional<Instant> turn;        // the handshake must not begin before; nullopt: removed from the table
    std::optional<uint64_t> gives_way;  // as in Arrival
  };
  // Sets the address that a proxy's header named for a connection. If the address is full, one of its connections
  // gives way as for Arrive. The connection is removed when none does, or when too many of its address wait.
  Moved Move(uint64_t id, const std::string& address, Instant now, const See& see);
  enum class Verdict { kAllowed, kTooFast, kTooMany };
  // A call of `identity` (empty: none) begins. kTooFast: more calls than calls_per_second, and the address
  // is slowed; or not in the table. kTooMany: the first call of a connection beyond the identity's
  // per_identity. After both the connection is not in the table, and the caller must end its socket.
  Verdict Called(uint64_t id, const std::string& identity, Instant now);
  // The call that Called reported is allowed: if it has an identity, the connection's address is a member's from now
  // on, for an hour after its last one. Some connections of such an address give way only when no other is left.
  void Allowed(uint64_t id, Instant now);
  // The only call of a connection was answered: it may give way again.
  void Answered(uint64_t id);
  // A connection ended because its identity was revoked: removes it, and the identity's addresses are no member's.
  void Revoked(uint64_t id);
  // A connection ended through a fault of its peer: removes it. An address with more than
  // faults_per_second is slowed.
  void Faulted(uint64_t id, Instant now);
  // Removes and returns the connections that made no call in time; the caller must end their
  // sockets.
  std::vector<uint64_t> TakeSilent(Instant now);
  // Earliest time at which TakeSilent returns something; kNever when no connection is silent.
  Instant NextSilent() const;

  size_t size() const { return entries_.size(); }
  size_t From(const std::string& address) const;

 private:
  static constexpr Instant kLongAgo{-kNever.ns / 2};
  // What is known of a network or an address. Dropped when it has no connections and no effect.
  struct Network {
    size_t connections = 0, silent = 0;  // `silent`: those of them that make no call (Entry::silent)
    Instant served = kLongAgo;           // when it had its last turn
    // Used of addresses only: when the next connection is due at an even pace, the end of the slowdown, and the faults
    // of a second.
    Instant next = kLongAgo, slowed_until = kLongAgo;
    Instant faults_began = kLongAgo;
    uint32_t faults = 0;
  };
  using Path = std::array<Network*, std::tuple_size_v<Networks>>;  // from wide to narrow
  struct Entry {
    Path networks{};
    std::string address, identity;
    bool of_member = false;   // a member had called from its address when it arrived
    bool silent = true;       // it has made no call, or its only one was answered
    Instant arrived, filled;  // `filled`: time at which `calls` was computed
    double calls = 0;         // calls that it could still make at once at that time

    Network& from() const { return *networks.back(); }
  };
  std::optional<uint64_t> ConnectionToEnd(const Network* address, const See& see) const;
  // Returns `oldest`, or, if it has sent nothing, the oldest of the newest ones of its address that has sent something
  // or left: a few looks find a client among hundreds of silent connections of its address.
  uint64_t ConnectionToServe(uint64_t oldest, const See& see) const;
  Turn TakeTurn(uint64_t id, Instant now, const See& see);
  std::vector<Turn> TakeTurnsByArrival(Instant now, const See& see);
  std::vector<Turn> TakeTurnsByAddress(Instant now, const See& see);
  // Returns the waiting connection whose address has the next turn; nullopt: none is due by the pace of its
  // address. Sets next_turn_.
  std::optional<uint64_t> NextByAddress(Instant now);
  Instant TurnOfAll() const { return next_of_all_ - limits_.pace_of_all * limits_.all_at_once; }
  // Sets what an entry has of its address. Count and Uncount change the counts of its networks.
  void Place(Entry& entry, const std::string& address, Instant now);
  static void Count(const Entry& entry);
  static void Uncount(const Entry& entry);
  void DropNetworks(Instant now);
  static void SetSilent(Entry& entry, bool silent);
  void Slow(Network& address, Instant now) const;
  // Returns when a waiting connection may be served: the later of the times by the pace of its address and of all.
  Instant TurnOf(const Entry& entry, Instant now) const;
  Instant TurnAtItsAddress(const Entry& entry, Instant now) const;
  // Takes a turn at `now` from the pace of an address.
  void TakePace(Network& address, Instant now) const;

  const ConnectionLimits limits_;
  std::map<uint64_t, Entry> entries_;  // by arrival
  std::set<uint64_t> silent_;          // they have still to make their first call; by arrival
  std::set<uint64_t> waiting_;         // waiting for their turn, by arrival
  Instant next_turn_ = kNever;         // the first turn of a waiting one, or earlier
  Instant next_of_all_{};              // when the next one is due at an even pace
  Instant burst_began_{};              // with `burst_` arrivals since
  int burst_ = 0;
  uint64_t turns_by_address_ = 0;
  std::array<std::unordered_map<std::string, Network>, std::tuple_size_v<Networks>> networks_;  // by width, then name
  Instant networks_dropped_ = kLongAgo;
  struct MemberAddress {
    std::string identity;  // that called from there last
    Instant called;
  };
  std::unordered_map<std::string, MemberAddress> members_from_;  // addresses of members' calls
  std::unordered_map<std::string, size_t> by_identity_;          // counts; no entry is 0
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_
