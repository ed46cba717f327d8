// SPDX-License-Identifier: Apache-2.0
// Listening sockets that keep the limits of connection_table.h: a thread that accepts, knows who may stay, and goes on
// accepting when the process has no descriptor left. What a connection says is for others (guard.h).
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

// What became of connections since the start.
struct ConnectionCounts {
  uint64_t refused = 0;     // there was no room
  uint64_t gave_way = 0;    // without a call, to a newer one
  uint64_t silent = 0;      // made no call in time
  uint64_t cut = 0;         // their calls came too fast, or those of others from there had and they did not wait
  uint64_t handshakes = 0;  // no TLS, no certificate of ours, or not in time
  uint64_t broken = 0;      // sent what no gRPC client sends
  uint64_t revoked = 0;     // of an identity that was revoked
  bool operator==(const ConnectionCounts&) const = default;
};

// A connection that may speak.
struct Accepted {
  uint64_t id = 0;  // never used before
  Descriptor socket;
  std::string endpoint;  // as gRPC writes it: "ipv4:203.0.113.7:40112", "ipv6:%5B2001:db8::7%5D:40112"
};

struct AcceptorHandlers {
  // Takes over a connection. Called under the acceptor's lock: hands over, and calls nothing of the acceptor's.
  std::function<void(Accepted)> serve;
  // The connection is out of the table: ends it, or does nothing where it has ended. Likewise.
  std::function<void(uint64_t id)> end;
};

// Thread-safe. One thread of its own from Start to Stop.
class Acceptor {
 public:
  // Listens on every address that `address` ("host:port", port 0: any free one) stands for. Unavailable when none of
  // them can be had, AlreadyExists when the port is in use, with the system's reason.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& address, const ConnectionLimits& limits);
  ~Acceptor();
  int port() const { return port_; }
  // Once.
  void Start(AcceptorHandlers handlers);
  // Takes no more connections; those that are served stay. Returns when the thread has ended. Idempotent.
  void Stop();

  // Of connections that are served. They have ended:
  void Left(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void HandshakeFailed(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void Broke(uint64_t id) ATOLL_EXCLUDES(mutex_);
  void WasRevoked(uint64_t id) ATOLL_EXCLUDES(mutex_);
  // A call begins. False: it is one too many, and the caller ends the connection.
  bool Called(uint64_t id) ATOLL_EXCLUDES(mutex_);
  // A proxy named the address ("203.0.113.7") that the connection speaks for. False: there is no room for it, and the
  // caller ends the connection.
  bool Moved(uint64_t id, const std::string& address) ATOLL_EXCLUDES(mutex_);
  ConnectionCounts Counts() const ATOLL_EXCLUDES(mutex_);

 private:
  struct Unserved {
    Descriptor socket;
    std::string endpoint;
  };
  Acceptor(std::vector<Descriptor> listeners, int port, const ConnectionLimits& limits, Descriptor poll,
           Descriptor wake);
  void Run();
  int EndSilent() ATOLL_EXCLUDES(mutex_);
  void AcceptFrom(const Descriptor& listener) ATOLL_EXCLUDES(mutex_);
  void Take(Descriptor socket, const std::string& address, std::string endpoint) ATOLL_EXCLUDES(mutex_);
  // What can be seen of those not served yet; for calls under the same lock.
  ConnectionTable::See Seeing() const ATOLL_REQUIRES(mutex_);
  void ServeThoseWhoseTurnItIs() ATOLL_REQUIRES(mutex_);
  void MakeRoom() ATOLL_EXCLUDES(mutex_);
  void Pause();
  void End(uint64_t id) ATOLL_REQUIRES(mutex_);

  std::vector<Descriptor> listeners_;  // as they were made until Stop
  const int port_;
  const Descriptor poll_, wake_;
  Descriptor spare_;  // given up to refuse a connection when no descriptor is left
  const SystemClock clock_;
  AcceptorHandlers handlers_;
  mutable Mutex mutex_;
  ConnectionTable table_ ATOLL_GUARDED_BY(mutex_);
  std::map<uint64_t, Unserved> unserved_ ATOLL_GUARDED_BY(mutex_);
  uint64_t next_id_ ATOLL_GUARDED_BY(mutex_) = 1;
  ConnectionCounts counts_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_ACCEPTOR_H_
