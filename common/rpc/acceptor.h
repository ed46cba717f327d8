// Listening sockets of our own that hand connections to a gRPC server. gRPC's own listener stops for good when the
// process has no descriptor left, lets anybody hold any number of connections, and knows no rate of calls; this one
// keeps the limits of common/rpc/connection_table.h, hands over nobody before his turn, and always accepts again.
#ifndef ATOLL_COMMON_RPC_ACCEPTOR_H_
#define ATOLL_COMMON_RPC_ACCEPTOR_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/rpc/connection_table.h"

namespace atl {

// What became of connections since the start.
struct ConnectionCounts {
  uint64_t refused = 0;   // there was no room
  uint64_t gave_way = 0;  // without a call, to a newer one
  uint64_t silent = 0;    // made no call in time
  uint64_t cut = 0;       // their calls came too fast, or those of others from there had and they did not wait
  uint64_t revoked = 0;   // of a certificate that was revoked
  bool operator==(const ConnectionCounts&) const = default;
};

// Thread-safe. One thread of its own from Start to Stop.
class Acceptor {
 public:
  // Listens on every address that `address` ("host:port", port 0: any free one) stands for. Unavailable when none of
  // them can be had or the port is in use, with the system's reason.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::string& address, const ConnectionLimits& limits);
  ~Acceptor();
  int port() const { return port_; }
  // Hands connections over from now on. Once.
  void Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server);
  // Takes no more connections; those there are stay with gRPC, and nothing ends them any more. Returns when the thread
  // has ended. Idempotent.
  void Stop();
  // A call begins at gRPC's `peer`, of `caller` (null: nobody). Ends the connection when its calls come too fast or its
  // certificate is among those of EndConnections.
  void CallBegan(const std::string& peer, const Caller& caller) ATOLL_EXCLUDES(mutex_);
  // A call of gRPC's `peer` was refused because it came too fast: ends the connection, and slows who comes from there.
  void CallsTooFast(const std::string& peer) ATOLL_EXCLUDES(mutex_);
  // Ends the connections of these certificates, and those that call with one of them later.
  void EndConnections(Certificates which) ATOLL_EXCLUDES(mutex_);
  ConnectionCounts Counts() const ATOLL_EXCLUDES(mutex_);

 private:
  Acceptor(std::vector<Descriptor> listeners, int port, const ConnectionLimits& limits, Descriptor poll,
           Descriptor wake);
  void Run();
  void HandleReady(uint64_t what) ATOLL_EXCLUDES(mutex_);
  void AcceptFrom(const Descriptor& listener) ATOLL_EXCLUDES(mutex_);
  void Take(Descriptor connection, const std::string& address, const std::string& endpoint, int listener)
      ATOLL_EXCLUDES(mutex_);
  // What can be seen of those not served yet; for calls under the same lock.
  ConnectionTable::See Seeing() const ATOLL_REQUIRES(mutex_);
  // To gRPC, those whose turn it is.
  void HandOver() ATOLL_EXCLUDES(mutex_);
  // No descriptor is left.
  void MakeRoom() ATOLL_EXCLUDES(mutex_);
  // Resets the connection at once, unread bytes and all; gRPC sees it as the peer's doing and frees what it holds.
  void End(uint64_t id) ATOLL_REQUIRES(mutex_);
  // Gives up the second descriptor.
  void Forget(uint64_t id) ATOLL_REQUIRES(mutex_);

  std::vector<Descriptor> listeners_;  // as they were made until Stop
  const int port_;
  const Descriptor poll_, wake_;
  Descriptor spare_;  // given up to refuse a connection when no descriptor is left
  const SystemClock clock_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  mutable Mutex mutex_;
  ConnectionTable table_ ATOLL_GUARDED_BY(mutex_);
  // A second descriptor of each connection: tells when gRPC or the peer has ended it, and can end it.
  std::map<uint64_t, Descriptor> held_ ATOLL_GUARDED_BY(mutex_);
  struct Unserved {
    Descriptor connection;
    int listener = -1;
  };
  std::map<uint64_t, Unserved> unserved_ ATOLL_GUARDED_BY(mutex_);  // not with gRPC yet
  uint64_t next_id_ ATOLL_GUARDED_BY(mutex_);
  ConnectionCounts counts_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ACCEPTOR_H_
