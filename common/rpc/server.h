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

// Which clients may connect to a server, and what they may call.
class ServerSecurity {
 public:
  // Server::Start refuses any address that is not loopback.
  static ServerSecurity PlaintextLoopback(guard::CallLimits limits = {});
  // Any address. Made by common/rpc/tls.h. `check` is called before each RPC.
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
  size_t quota_bytes = size_t{256} << 20;  // memory quota of the transport over all connections
  int streams_per_connection = 64;
  size_t message_bytes = limits::kMessageBytes;
  bool reflection = false;
  guard::ConnectionLimits connections;  // lowered to fit the process's limit on descriptors
  bool proxied = false;                 // each connection begins with a load balancer's PROXY header
};

// Returns the limits of a listener, lowered to fit the process's limit on descriptors.
guard::ConnectionLimits Fitting(guard::ConnectionLimits limits);

// Error for a listener that could not be opened, with a hint: Unavailable, or InvalidArgument for a
// malformed address.
absl::Status ListenError(const std::string& address, const absl::Status& why);

// Number of descriptors of this process, at least 1, that remain for files when a coordinator's servers
// with these limits have all their connections; 0: the process's limit is unknown.
uint64_t DescriptorsBeside(const guard::ConnectionLimits& limits);
// FailedPrecondition when DescriptorsBeside is below `needed`, the number that a job needs, and known.
absl::Status CheckDescriptors(const guard::ConnectionLimits& limits, uint64_t needed);

// Thread-safe after Start. The destructor calls Shutdown with 1 s.
class Server {
 public:
  // `services` (borrowed) must outlive the server. Errors: those of ListenError, with the address;
  // InvalidArgument when security forbids the address; Internal when gRPC does not start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, const ServerSecurity& security,
                                                       const std::vector<grpc::Service*>& services);
  ~Server();
  // The listening port.
  int port() const { return guard_->port(); }
  // Sets health to NOT_SERVING; calls continue.
  void AnnounceShutdown();
  // Accepts no new calls and cancels running ones after `limit`. Returns when all handlers are
  // done. Idempotent.
  void Shutdown(Duration limit);
  guard::Guard& door() { return *guard_; }
  // Counts, since the start, of connections that the guard refused or ended.
  guard::ConnectionCounts Connections() const { return guard_->Counts(); }

 private:
  Server(std::unique_ptr<guard::Guard> guard, std::unique_ptr<grpc::CallbackGenericService> others,
         std::unique_ptr<grpc::Server> server);
  std::unique_ptr<guard::Guard> guard_;
  // Refuses calls of unknown methods. gRPC would do so too, but leaks memory in a flood of them.
  std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_SERVER_H_
