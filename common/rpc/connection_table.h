// Who may hold a connection to a listener: how many in all and from one address, who gives way when there are too many,
// whose calls come too fast, and whose join token was revoked. Decides; the sockets are common/rpc/acceptor.h. Pure,
// single-threaded.
//
// Source: the packaged gRPC stops listening for good when descriptors run out, and its memory grows with calls that are
// opened and taken back; docs/trust.md, "Floods".
#ifndef ATOLL_COMMON_RPC_CONNECTION_TABLE_H_
#define ATOLL_COMMON_RPC_CONNECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/time.h"

namespace atl {

struct ConnectionLimits {
  size_t connections = 1024;            // at one time
  size_t per_address = 512;             // of them from one address: whole households and islands share one
  Duration without_call = Seconds(30);  // a connection that has made no call for so long since it came is ended
  uint32_t calls_per_second = 500;      // of one connection
};

// "1.2.3.4:5" of a gRPC peer, as "ipv4:1.2.3.4:5" or "ipv6:%5B::1%5D:5"; the same text as of the socket (acceptor.h).
std::string EndpointOfPeer(const std::string& peer);

class ConnectionTable {
 public:
  explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

  struct Arrival {
    bool admitted = false;
    std::optional<uint64_t> gives_way;  // is out of the table already: its socket must be ended
  };
  // A connection `id` (never used before) from `endpoint`, which is `address` and a port. When there is no room, the
  // oldest connection that has made no call gives way, of the same address where it is that which is full; when all
  // have called, the new one is not admitted. Never earlier than an earlier `now`.
  Arrival Arrive(uint64_t id, const std::string& address, const std::string& endpoint, Instant now);
  // The oldest connection that has made no call; out of the table. For a process that has no descriptor left.
  std::optional<uint64_t> GiveWay();
  // The connection has ended. Nothing when it is out of the table.
  void Leave(uint64_t id);
  // The connection from there, out of the table: its socket must be ended. Nothing when there is none.
  std::optional<uint64_t> LeaveNamed(const std::string& endpoint);
  enum class Fault { kTooFast, kRevoked };
  struct Ended {
    uint64_t id = 0;  // out of the table: its socket must be ended
    Fault fault = Fault::kTooFast;
    friend bool operator==(const Ended&, const Ended&) = default;
  };
  // A call begins, of who enrolled by `token`; empty where nobody did. The connection when the call is one too many in
  // this second, or the token was revoked.
  std::optional<Ended> Called(const std::string& endpoint, const std::string& token, Instant now);
  // From now on no connection of this token stays. Those that have called with it; out of the table, their sockets must
  // be ended.
  std::vector<uint64_t> Revoke(const std::string& token);
  // Those whose time to make a call has passed; out of the table, their sockets must be ended.
  std::vector<uint64_t> TakeSilent(Instant now);
  // When TakeSilent has something to give at the earliest; kNever when nobody is silent.
  Instant NextSilent() const;

  size_t size() const { return entries_.size(); }
  size_t From(const std::string& address) const;

 private:
  struct Entry {
    std::string address, endpoint;
    std::string token;  // of the calls; one certificate, one token
    Instant window;     // begin of the second that is counted
    uint32_t calls = 0;
  };
  std::optional<uint64_t> OldestSilent(const std::string* address) const;

  const ConnectionLimits limits_;
  std::map<uint64_t, Entry> entries_;   // by arrival
  std::map<uint64_t, Instant> silent_;  // that have made no call, by arrival
  std::unordered_map<std::string, uint64_t> by_endpoint_;
  std::unordered_map<std::string, size_t> by_address_;
  // A call that was allowed just before may begin just after.
  std::unordered_set<std::string> revoked_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CONNECTION_TABLE_H_
