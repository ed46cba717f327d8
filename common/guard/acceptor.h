// SPDX-License-Identifier: Apache-2.0
// Listening sockets with the limits of connection_table.h: a thread accepts connections and decides
// which may stay. When the process has no descriptor left, it ends a connection without a call or
// refuses new ones. guard.h handles the bytes of a connection.
#ifndef ATOLL_COMMON_GUARD_ACCEPTOR_H_
#define ATOLL_COMMON_GUARD_ACCEPTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/guard/connection_table.h"

namespace atl::guard {

// Counts of connections since the start, by the reason for their end.
struct ConnectionCounts {
  uint64_t refused = 0;     // no room on the port, for its address or for its identity
  uint64_t gave_way = 0;    // without a call, ended to make room for a newer one or for its descriptor
  uint64_t silent = 0;      // made no call in time
  uint64_t cut = 0;         // its calls came too fast, or it sent too early from an address that is slowed down
  uint64_t handshakes = 0;  // no PROXY header, no TLS, no valid certificate, or not in time
  uint64_t broken = 0;      // sent data that no gRPC client sends
  uint64_t revoked = 0;     // its identity was revoked
  bool operator==(const ConnectionCounts&) const = default;
};

// An accepted connection that is being served.
struct Accepted {
  uint64_t id = 0;  // unique
  Descriptor socket;
  std::string endpoint;  // in gRPC's form: "ipv4:203.0.113.7:40112", "ipv6:%5B2001:db8::7%5D:40112"
};

struct AcceptorHandlers {
  // Takes over a connection that is served from now on. Called under the acceptor's lock: must only
  // pass the connection on, and not call the acceptor.
  std::function<void(Accepted)> serve;
  // Ends a connection passed to `serve`, because the acceptor removed it from its table; no effect
  // if it has already ended. Also called under the lock.
  std::function<void(uint64_t id)> end;
};

// Thread-safe. Has its own thread from Start to Stop.
class Acceptor {
 public:
  // Listens on every address that `address` ("host:port", port 0: any free one) resolves to, except addresses that
  // this machine lacks. Unavailable when none works, AlreadyExists when the port is in use, with the system's
  // reason. `proxied`: every connection comes from a proxy; the caller reports the client's address with Moved.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& address, const ConnectionLimits& limits,
                                                          bool proxied = false);
  ~Acceptor();
  int port() const { return port_; }
  // Call once.
  void Start(AcceptorHandlers handlers);
  // Accepts no more connections and closes those not served yet; connections being served stay.
  // Returns when the thread has ended. Idempotent.
  void Stop();

  // Each reports that a served connection has ended, and why. Left: for no fault, or one already counted.
  void Left(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void HandshakeFailed(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void Broke(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void WasRevoked(uint64_t id) ATOLL_EXCLUDES(mutex_);
  // A call begins on the connection; `identity` is its peer's, or empty. Unless kAllowed: end the connection.
  ConnectionTable::Verdict Called(uint64_t id, const std::string& identity) ATOLL_EXCLUDES(mutex_);
  void Allowed(uint64_t id) ATOLL_EXCLUDES(mutex_);   // ConnectionTable::Allowed
  void Answered(uint64_t id) ATOLL_EXCLUDES(mutex_);  // ConnectionTable::Answered
  // A proxy named the client's address ("203.0.113.7"). Returns when the connection's handshake may begin.
  // nullopt: no room for that address, or already removed from the table; the caller ends the connection.
  std::optional<Instant> Moved(uint64_t id, const std::string& address) ATOLL_EXCLUDES(mutex_);
  ConnectionCounts Counts() const ATOLL_EXCLUDES(mutex_);

 private:
  struct Unserved {
    Descriptor socket;
    std::string endpoint;
  };
  Acceptor(std::vector<Descriptor> listeners, int port, const ConnectionLimits& limits, bool proxied, Descriptor poll,
           Descriptor wake);
  void Run();
  int EndSilent() ATOLL_EXCLUDES(mutex_);
  void AcceptFrom(const Descriptor& listener) ATOLL_EXCLUDES(mutex_);
  // Returns ConnectionTable::Arrival::ends_burst: true when the thread must pause before it accepts others.
  bool Take(Descriptor socket, const std::string& address, std::string endpoint) ATOLL_EXCLUDES(mutex_);
  // Returns a function that inspects the socket of a connection not served yet. Call it under the same lock only.
  ConnectionTable::See Seeing() const ATOLL_REQUIRES(mutex_);
  void ServeThoseWhoseTurnItIs() ATOLL_REQUIRES(mutex_);
  void MakeRoom() ATOLL_EXCLUDES(mutex_);
  void Pause();
  void End(uint64_t id) ATOLL_REQUIRES(mutex_);

  std::vector<Descriptor> listeners_;  // unchanged until Stop
  const int port_;
  const bool proxied_;
  const Descriptor poll_, wake_;
  Descriptor spare_;  // closed to refuse a connection when no descriptor is left
  const SystemClock clock_;
  AcceptorHandlers handlers_;
  mutable Mutex mutex_;
  ConnectionTable table_ ATOLL_GUARDED_BY(mutex_);
  std::map<uint64_t, Unserved> unserved_ ATOLL_GUARDED_BY(mutex_);
  uint64_t next_id_ ATOLL_GUARDED_BY(mutex_) = 1;
  ConnectionCounts counts_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: ends before the members it uses
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_ACCEPTOR_H_
