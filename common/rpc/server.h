// A gRPC server with the project's limits: message sizes, keepalive enforcement, no compression, health service.
#ifndef ATOLL_COMMON_RPC_SERVER_H_
#define ATOLL_COMMON_RPC_SERVER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/call_brake.h"

namespace atl {

class ServerSecurity {
 public:
  // Server::Start refuses any other address than a loopback one.
  static ServerSecurity PlaintextLoopback(CallBrakeLimits limits = {});
  // Any address. Made by common/rpc/tls.h. `check`, which may be empty, is asked before each call.
  static ServerSecurity WithCertificates(std::shared_ptr<grpc::ServerCredentials> credentials,
                                         EarlyCheck check = nullptr, CallBrakeLimits limits = {});
  // What a listener at `address` ("host:port") takes.
  std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const std::string& address) const;
  // Of all servers with this security.
  const std::shared_ptr<CallBrake>& brake() const { return brake_; }
  bool loopback_only() const { return loopback_only_; }

 private:
  ServerSecurity(std::shared_ptr<grpc::ServerCredentials> credentials, bool loopback_only, CallBrakeLimits limits,
                 EarlyCheck check);
  std::shared_ptr<CallBrake> brake_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  bool loopback_only_;
};

struct ServerOptions {
  std::string address = "127.0.0.1:0";     // port 0: any free one
  size_t quota_bytes = size_t{256} << 20;  // that all connections together may make the transport hold
  int streams_per_connection = 64;
  size_t message_bytes = limits::kMessageBytes;
  bool reflection = false;
  ConnectionLimits connections;  // fewer where the process may open few descriptors
  // A connection without a call for so long is ended, and any connection after the other, its calls within ten seconds
  // more. Zero: never.
  Duration idle{}, age{};
};

// How many descriptors of this process are left beside those that the connections of a coordinator's servers may take,
// with such limits, and its downloads; 0: not known.
uint64_t DescriptorsBeside(const ConnectionLimits& limits);

// Thread-safe after Start. The destructor shuts down with a limit of 1 s.
class Server {
 public:
  // `services` (borrowed) must outlive the server. Unavailable, naming the address, when the port is in use;
  // InvalidArgument when security forbids the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, const ServerSecurity& security,
                                                       const std::vector<grpc::Service*>& services);
  ~Server();
  // The port that is listened on.
  int port() const { return acceptor_->port(); }
  // Flips health to NOT_SERVING; calls go on.
  void AnnounceShutdown();
  // No new calls; running ones get `limit` to end, then are cancelled. Returns when all handlers are done. Idempotent.
  void Shutdown(Duration limit);
  // Ends the connections whose certificate is among `which`, running calls and all, and those that call with one later.
  // Each call replaces the one before.
  void EndConnections(Certificates which) { acceptor_->EndConnections(std::move(which)); }
  // Since the start: what became of connections that did not end by themselves.
  ConnectionCounts Connections() const { return acceptor_->Counts(); }

 private:
  Server(std::shared_ptr<Acceptor> acceptor, std::unique_ptr<grpc::CallbackGenericService> others,
         std::unique_ptr<grpc::Server> server);
  std::shared_ptr<Acceptor> acceptor_;  // also the counter's of its calls
  // Refuses calls of no method. gRPC would do so by itself, but uncounted: floods of them would cost memory.
  std::unique_ptr<grpc::CallbackGenericService> others_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_SERVER_H_
