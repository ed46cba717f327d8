#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "common/plan/limits.h"
#include "common/rpc/channel.h"

namespace atl {
namespace {

void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kMessageBytes));
  grpc::ResourceQuota quota("transport");
  quota.Resize(options.quota_bytes);
  builder.SetResourceQuota(quota);
  // A second program on the same port must fail, not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // A megabyte on the wire may be a gigabyte in memory.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

}  // namespace

ServerSecurity ServerSecurity::PlaintextLoopback() {
  ServerSecurity security;
  security.credentials_ = grpc::InsecureServerCredentials();
  return security;
}

ServerSecurity ServerSecurity::WithCertificates(std::shared_ptr<grpc::ServerCredentials> credentials) {
  ServerSecurity security;
  security.credentials_ = std::move(credentials);
  security.loopback_only_ = false;
  return security;
}

Server::Server(std::unique_ptr<grpc::Server> server, int port) : server_(std::move(server)), port_(port) {}

Server::~Server() { Shutdown(Seconds(1)); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, const ServerSecurity& security,
                                                      const std::vector<grpc::Service*>& services) {
  if (security.loopback_only() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on '", options.address,
                                                   "': without certificates only a "
                                                   "loopback address is allowed, for example 127.0.0.1:7700"));
  }
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ApplyLimits(options, builder);
  int port = 0;
  builder.AddListeningPort(options.address, security.credentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address,
                     ": the port is in use or the address is not this machine's; choose another"));
  }
  return std::unique_ptr<Server>(new Server(std::move(server), port));
}

void Server::AnnounceShutdown() {
  if (server_ && server_->GetHealthCheckService()) server_->GetHealthCheckService()->SetServingStatus(false);
}

void Server::Shutdown(Duration limit) {
  if (server_ == nullptr) return;
  server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(limit.ns, GPR_TIMESPAN)));
  server_->Wait();
  server_.reset();
}

}  // namespace atl
