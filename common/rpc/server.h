// SPDX-License-Identifier: Apache-2.0
// A gRPC server with the project's limits: message sizes, keepalive enforcement, no compression, health service.
#ifndef ATOLL_COMMON_RPC_SERVER_H_
#define ATOLL_COMMON_RPC_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/guard/guard.h"
#include "common/plan/limits.h"

namespace atl {

// Who may connect to a server, and what a caller may call.
class ServerSecurity {
 public:
  // Server::Start refuses any other address than a loopback one.
  static ServerSecurity PlaintextLoopback(guard::CallLimits limits = {});
  // Any address. Made by common/rpc/tls.h. `check` is asked before each call.
  static ServerSecurity WithCertificates(std::shared_ptr<guard::TlsServer> tls, guard::CallCheck check,
                                         guard::CallLimits limits = {});
  const std::shared_ptr<guard::TlsServer>& tls() const { return tls_; }  // null: plaintext
  const guard::CallCheck& check() const { return check_; }
  const guard::CallLimits& limits() const { return limits_; }

 private:
  std::shared_ptr<guard::TlsServer> tls_;
  guard::CallCheck check_;
  guard::CallLimits limits_;
};

struct ServerOptions {
  std::string address = "127.0.0.1:0";     // port 0: any free one
  size_t quota_bytes = size_t{256} << 20;  // that all connections together may make the transport hold
  int streams_per_connection = 64;
  size_t message_bytes = limits::kMessageBytes;
  bool reflection = false;
  guard::ConnectionLimits connections;  // fewer where the process may open few descriptors
  bool proxied = false;                 // a load balancer's PROXY header begins each connection
};

// The limits of a listener, fewer where the process may open few descriptors.
guard::ConnectionLimits Fitting(guard::ConnectionLimits limits);

// Why a listener could not be opened, with the way out: Unavailable, or InvalidArgument for an address that is none.
absl::Status ListenError(const std::string& address, const absl::Status& why);

// How many descriptors of this process are left beside those that the connections of a coordinator's servers may take,
// with such limits, and its downloads; 0: not known.
uint64_t DescriptorsBeside(const guard::ConnectionLimits& limits);

// Thread-safe after Start. The destructor shuts down with a limit of 1 s.
class Server {
 public:
  // `services` (borrowed) must outlive the server. Unavailable, naming the address, when the port is in use;
  // InvalidArgument when security forbids the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, const ServerSecurity& security,
                                                       const std::vector<grpc::Service*>& services);
  ~Server();
  // The port that is listened on.
  int port() const { return guard_->port(); }
  // Flips health to NOT_SERVING; calls go on.
  void AnnounceShutdown();
  // No new calls; running ones get `limit` to end, then are cancelled. Returns when all handlers are done. Idempotent.
  void Shutdown(Duration limit);
  guard::Guard& door() { return *guard_; }
  // Since the start: what became of connections that did not end by themselves.
  guard::ConnectionCounts Connections() const { return guard_->Counts(); }

 private:
  Server(std::unique_ptr<guard::Guard> guard, std::unique_ptr<grpc::CallbackGenericService> others,
         std::unique_ptr<grpc::Server> server);
  std::unique_ptr<guard::Guard> guard_;
  // Refuses calls of no method. gRPC would do so by itself, but in a way that keeps memory in a flood of them.
  std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_SERVER_H_
