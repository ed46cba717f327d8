// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>

#include "atoll/v1/job.pb.h"
#include "atoll/v1/transfer.pb.h"
#include "common/base/host_cores.h"
#include "common/base/host_port.h"
#include "common/base/open_files.h"
#include "common/plan/limits.h"
#include "common/rpc/channel.h"

namespace atl {
namespace {

constexpr int kReadAtOnceBytes = 128 << 10;
constexpr unsigned kMostGuardThreads = 4;

void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kMessageBytes));
  grpc::ResourceQuota quota("transport");
  quota.Resize(options.quota_bytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  // Bounds the work of one read: megabytes would hold thousands of calls, all parsed at once.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadAtOnceBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // A megabyte of compressed data may expand to a gigabyte.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// A connection takes three descriptors: its own and the inner pair. A coordinator has up to three
// listeners in addition to its files.
constexpr size_t kPerConnection = 3, kListeners = 3;
constexpr int kGoodOpenFiles = 4096;  // for a few hundred workers

// Returns the limits of the requests of a method. Unknown methods are refused later, without reading their messages.
guard::MethodLimits LimitsOf(std::string path, uint32_t most) {
  constexpr uint32_t kQueryBytes = limits::kQueryBytes;
  std::replace(path.begin(), path.end(), '/', '.');
  const google::protobuf::MethodDescriptor* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(path.substr(1));
  if (method == nullptr) return {.message_bytes = std::min(most, kQueryBytes), .one_message = true};
  const auto is = [&](const auto* request) { return method->input_type() == request; };
  const bool is_long = is(v1::SubmitJobRequest::descriptor()) || is(v1::UpdateJobRequest::descriptor()) ||
                       is(v1::MissingBlobsRequest::descriptor());
  return {.message_bytes = method->client_streaming() || is_long ? most : std::min(most, kQueryBytes),
          .one_message = !method->client_streaming()};
}

}  // namespace

guard::ConnectionLimits Fitting(guard::ConnectionLimits limits) {
  constexpr size_t kOwnDescriptors = 128, kLeast = 8;
  const size_t all = OpenFilesLimit();
  if (all == 0) return limits;
  const size_t fitting = all > kOwnDescriptors ? (all - kOwnDescriptors) / (kPerConnection * kListeners) : 0;
  limits.connections = std::min(limits.connections, std::max(fitting, kLeast));
  limits.per_address = std::min(limits.per_address, limits.connections);
  return limits;
}

ServerSecurity ServerSecurity::PlaintextLoopback(guard::CallLimits limits) {
  ServerSecurity security;
  security.limits_ = limits;
  return security;
}

ServerSecurity ServerSecurity::WithCertificates(std::shared_ptr<guard::TlsServer> tls, guard::CallCheck check,
                                                guard::CallLimits limits) {
  ServerSecurity security;
  security.tls_ = std::move(tls);
  security.check_ = std::move(check);
  security.limits_ = limits;
  return security;
}

absl::Status ListenError(const std::string& address, const absl::Status& why) {
  if (absl::IsInvalidArgument(why)) return why;
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " (", why.message(),
                                             "): the port is in use or the address is not this machine's; choose "
                                             "another"));
}

uint64_t DescriptorsBeside(const guard::ConnectionLimits& limits) {
  const uint64_t all = OpenFilesLimit();
  const uint64_t taken = kPerConnection * kListeners * Fitting(limits).connections;
  return all == 0 ? 0 : std::max<uint64_t>(1, all - std::min(all, taken));
}

absl::Status CheckDescriptors(const guard::ConnectionLimits& limits, uint64_t needed) {
  const uint64_t left = DescriptorsBeside(limits);
  if (left == 0 || left >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "a limit of ", OpenFilesLimit(), " open files leaves ", left, " besides connections, and a job needs ", needed,
      "; raise it to ", kGoodOpenFiles, " or more (ulimit -Hn, LimitNOFILE= of the service)"));
}

Server::Server(std::unique_ptr<guard::Guard> guard, std::unique_ptr<grpc::CallbackGenericService> others,
               std::unique_ptr<grpc::Server> server)
    : guard_(std::move(guard)), others_(std::move(others)), server_(std::move(server)) {}

Server::~Server() { Shutdown(Seconds(1)); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, const ServerSecurity& security,
                                                      const std::vector<grpc::Service*>& services) {
  if (!security.tls() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on '", options.address,
                                                   "': without certificates only a "
                                                   "loopback address is allowed, for example 127.0.0.1:7700"));
  }
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ApplyLimits(options, builder);
  absl::StatusOr<std::unique_ptr<guard::Guard>> door =
      guard::Guard::Listen({.address = options.address,
                            .connections = Fitting(options.connections),
                            .tls = security.tls(),
                            .proxied = options.proxied,
                            .threads = std::clamp(UsableCores(), 1U, kMostGuardThreads)});
  if (!door.ok()) return ListenError(options.address, door.status());
  // Connections come from an inner socket pair, which no other process can reach.
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto others = std::make_unique<grpc::CallbackGenericService>();
  builder.RegisterCallbackGenericService(others.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError(absl::StrCat("gRPC does not start at ", options.address));
  const auto hand_over = [acceptor = std::shared_ptr(std::move(connections))](Descriptor socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = -1;
    parameters.fd = socket.Release();
    acceptor->HandleNewConnection(&parameters);
  };
  ATOLL_RETURN_IF_ERROR((*door)->Relay({.streams = static_cast<uint32_t>(options.streams_per_connection),
                                        .method = [most = static_cast<uint32_t>(options.message_bytes)](
                                                      const std::string& path) { return LimitsOf(path, most); }},
                                       security.limits(), security.check(), hand_over));
  return std::unique_ptr<Server>(new Server(*std::move(door), std::move(others), std::move(server)));
}

void Server::AnnounceShutdown() {
  if (server_ && server_->GetHealthCheckService()) server_->GetHealthCheckService()->SetServingStatus(false);
}

void Server::Shutdown(Duration limit) {
  if (server_ == nullptr) return;
  guard_->StopAccepting();
  server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(limit.ns, GPR_TIMESPAN)));
  server_->Wait();
  server_.reset();
}

}  // namespace atl
