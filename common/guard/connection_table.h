// SPDX-License-Identifier: Apache-2.0
// Who may hold a connection to a listener: how many in all and from one address, who gives way when there are too many,
// and whose calls or faults come too fast and what that means for later connections from the same address. Decides;
// the sockets are common/guard/acceptor.h. Pure, single-threaded.
#ifndef ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_
#define ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/time.h"

namespace atl::guard {

struct ConnectionLimits {
  size_t connections = 1024;            // at one time
  size_t per_address = 512;             // of them from one address (NetworkOf): households and islands share one
  Duration without_call = Seconds(30);  // a connection that has made no call for so long since it came is ended
  uint32_t calls_per_second = 500;      // of one connection, in the long run and at once
  uint32_t calls_at_first = 64;         // at once, by a connection that is new: as many as it may have open
  uint32_t faults_per_second = 20;      // of one address: handshakes that fail, connections that speak no gRPC
  // New connections of one address that are served at once, and the distance of those beyond: a handshake costs the
  // server as much as the client.
  uint32_t at_once = 64;
  Duration pace = Milliseconds(20);
  // For this long after calls or faults from an address came too fast, new connections from there are served
  // one by one, at this distance, and not before they had time to show what they are: a connection that has sent more
  // than this before it is served is ended, since a client waits with its calls for the server's settings.
  Duration slowed = Seconds(10);
  Duration turn = Milliseconds(25);
  Duration shown = Milliseconds(20);
  size_t unserved_bytes = 4096;
};

class ConnectionTable {
 public:
  explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

  // What can be seen of a connection that is not served yet.
  struct Seen {
    size_t unread = 0;  // bytes that it has sent
    bool left = false;  // its peer sends no more
  };
  using See = std::function<Seen(uint64_t)>;
  struct Arrival {
    bool admitted = false;
    std::optional<uint64_t> gives_way;  // is out of the table already: its socket must be ended
  };
  // A connection `id` (never used before) from `address`, which is a NetworkOf. When
  // there is no room, one that has made no call gives way, of the same address where it is that which is full: among
  // the oldest that wait for their turn one that has left, else the oldest that is served, else the oldest; when all
  // have called, the new one is not admitted. Who is admitted waits for its turn. Never earlier than an earlier `now`.
  Arrival Arrive(uint64_t id, const std::string& address, Instant now, const See& see);
  // One that has made no call, chosen in the same way; out of the table. For a process that has no descriptor left.
  std::optional<uint64_t> GiveWay(const See& see);
  // The connection has ended. Nothing when it is out of the table.
  void Leave(uint64_t id);
  enum class Way { kServed, kTooFast, kLeft };
  struct Turn {
    uint64_t id = 0;
    Way way = Way::kServed;  // or it is out of the table: its socket must be ended
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  // Those whose turn has come, by arrival.
  std::vector<Turn> TakeTurns(Instant now, const See& see);
  // When TakeTurns may have something to give at the earliest; kNever when no connection waits.
  Instant NextTurn() const { return waiting_.empty() ? kNever : next_turn_; }
  // The address of a connection turns out to be another: a proxy names the one that it speaks for. False: that address
  // has no room, and the connection is out of the table.
  bool Move(uint64_t id, const std::string& address);
  // A call begins. False: it is one too many in this second; the connection is out of the table, its socket must be
  // ended, and its address is slowed.
  bool Called(uint64_t id, Instant now);
  // A connection ended by a fault of its peer. An address with too many of them in a second is slowed.
  void Faulted(uint64_t id, Instant now);
  // Those whose time to make a call has passed; out of the table, their sockets must be ended.
  std::vector<uint64_t> TakeSilent(Instant now);
  // When TakeSilent has something to give at the earliest; kNever when nobody is silent.
  Instant NextSilent() const;

  size_t size() const { return entries_.size(); }
  size_t From(const std::string& address) const;

 private:
  struct Entry {
    std::string address;
    Instant filled;    // when `calls` was right
    double calls = 0;  // that it may make at once
  };
  struct Faults {
    Instant window;
    uint32_t count = 0;
  };
  // Of an address: when its next connection would be served at an even pace, and until when it is slowed.
  struct Pace {
    Instant next, slowed_until;
  };
  std::optional<uint64_t> WhoGivesWay(const std::string* address, const See& see) const;
  void Slow(const std::string& address, Instant now);
  // When the turn of a connection that waits comes.
  Instant TurnOf(uint64_t id, Instant now) const;
  void Served(const std::string& address, Instant now);

  const ConnectionLimits limits_;
  std::map<uint64_t, Entry> entries_;               // by arrival
  std::map<uint64_t, Instant> silent_;              // that have made no call, by arrival
  std::set<uint64_t> waiting_;                      // for their turn, by arrival
  Instant next_turn_ = kNever;                      // of those that wait, or earlier
  std::unordered_map<std::string, Pace> paces_;     // by address; none: whole
  std::unordered_map<std::string, Faults> faults_;  // by address
  std::unordered_map<std::string, size_t> by_address_;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CONNECTION_TABLE_H_
