// Who may hold a connection to a listener: how many in all and from one address, who gives way when there are too many,
// whose calls come too fast and what that means for who comes next from there, and whose certificate was revoked.
// Decides; the sockets are common/rpc/acceptor.h. Pure, single-threaded.
//
// Source: the packaged gRPC stops listening for good when descriptors run out, its memory grows with calls that are
// opened and taken back, and it takes some ten times as long to end a connection full of calls as somebody takes to
// fill another; docs/trust.md, "Floods".
#ifndef ATOLL_COMMON_RPC_CONNECTION_TABLE_H_
#define ATOLL_COMMON_RPC_CONNECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/time.h"
#include "common/trust/certificate.h"

namespace atl {

struct ConnectionLimits {
  size_t connections = 1024;            // at one time
  size_t per_address = 512;             // of them from one address (NetworkOf): households and islands share one
  Duration without_call = Seconds(30);  // a connection that has made no call for so long since it came is ended
  uint32_t calls_per_second = 500;      // of one connection
  // For so long since calls of a connection from an address came too fast, new ones from there are served one by one,
  // at this distance, and not before they had time to show what they are: one that has sent so much before it was
  // served is ended, since a gRPC client waits with its calls for the server's settings.
  Duration slowed = Seconds(10);
  Duration turn = Milliseconds(25);
  Duration shown = Milliseconds(20);
  size_t unserved_bytes = 4096;
};

// "1.2.3.4:5" of a gRPC peer, as "ipv4:1.2.3.4:5" or "ipv6:%5B::1%5D:5"; the same text as of the socket (acceptor.h).
std::string EndpointOfPeer(const std::string& peer);

// Who calls, by the verified certificate; null where there is none.
using Caller = std::shared_ptr<const CertificateFacts>;
// Some certificates. Asked at each call; does not wait.
using Certificates = std::function<bool(const CertificateFacts& facts)>;

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
  // A connection `id` (never used before) from `endpoint`, an address and a port; `address` is its NetworkOf. When
  // there is no room, one that has made no call gives way, of the same address where it is that which is full: the
  // oldest that waits for its turn and has left, else the oldest that is served, else the oldest; when all have called,
  // the new one is not admitted. Who is admitted waits for its turn. Never earlier than an earlier `now`.
  Arrival Arrive(uint64_t id, const std::string& address, const std::string& endpoint, Instant now, const See& see);
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
  // Those whose turn has come, which is at once for all but the addresses that are slowed, by arrival.
  std::vector<Turn> TakeTurns(Instant now, const See& see);
  // When TakeTurns has something to give at the earliest; kNever when nobody waits.
  Instant NextTurn() const;
  // A call from there was one too many. The connection, out of the table: its socket must be ended. Nothing when it has
  // left already; its address is slowed all the same.
  std::optional<uint64_t> CalledTooFast(const std::string& endpoint, Instant now);
  enum class Fault { kTooFast, kRevoked };
  struct Ended {
    uint64_t id = 0;  // out of the table: its socket must be ended
    Fault fault = Fault::kTooFast;
    friend bool operator==(const Ended&, const Ended&) = default;
  };
  // A call begins. The connection when the call is one too many in this second, or the caller is among those of End.
  std::optional<Ended> Called(const std::string& endpoint, const Caller& caller, Instant now);
  // From now on no connection of these certificates stays, and those of an earlier call are no longer looked for. Those
  // that have called with one; out of the table, their sockets must be ended.
  std::vector<uint64_t> End(Certificates which);
  // Those whose time to make a call has passed; out of the table, their sockets must be ended.
  std::vector<uint64_t> TakeSilent(Instant now);
  // When TakeSilent has something to give at the earliest; kNever when nobody is silent.
  Instant NextSilent() const;

  size_t size() const { return entries_.size(); }
  size_t From(const std::string& address) const;

 private:
  struct Entry {
    std::string address, endpoint;
    Caller caller;   // of its calls
    Instant window;  // begin of the second that is counted
    uint32_t calls = 0;
  };
  struct Slowed {
    Instant until, next;
  };
  std::optional<uint64_t> WhoGivesWay(const std::string* address, const See& see) const;
  void Slow(const std::string& address, Instant now);

  const ConnectionLimits limits_;
  std::map<uint64_t, Entry> entries_;               // by arrival
  std::map<uint64_t, Instant> silent_;              // that have made no call, by arrival
  std::set<uint64_t> waiting_;                      // for their turn, by arrival
  std::unordered_map<std::string, Slowed> slowed_;  // by address
  // The newest that is served: calls that come while another waits at the same port are of the one that had it before.
  std::unordered_map<std::string, uint64_t> by_endpoint_;
  std::unordered_map<std::string, size_t> by_address_;
  // A call that was allowed just before may begin just after.
  Certificates revoked_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CONNECTION_TABLE_H_
