#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>

#include <algorithm>

#include "common/base/host_port.h"
#include "common/base/open_files.h"
#include "common/plan/limits.h"
#include "common/rpc/channel.h"
#include "common/rpc/peer.h"

namespace atl {
namespace {

constexpr int kReadAtOnceBytes = 64 << 10;

void ApplyLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kMessageBytes));
  grpc::ResourceQuota quota("transport");
  quota.Resize(options.quota_bytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  // What is read at once is parsed at once: thousands of calls, where it is megabytes.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadAtOnceBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  const auto whole_ms = [](Duration time) { return static_cast<int>(time.ns / 1'000'000); };
  if (options.idle.ns > 0) builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, whole_ms(options.idle));
  if (options.age.ns > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, whole_ms(options.age));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 10'000);
  }
  // A megabyte on the wire may be a gigabyte in memory.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// Tells the acceptor of each call as it begins; takes no part in it.
class CallCounter final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  CallCounter(std::shared_ptr<Acceptor> acceptor, std::shared_ptr<CallBrake> brake)
      : acceptor_(std::move(acceptor)), brake_(std::move(brake)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    const grpc::ServerContextBase& context = *info->server_context();
    const std::shared_ptr<const grpc::AuthContext> authenticated = context.auth_context();
    acceptor_->CallBegan(context.peer(), authenticated ? CertificateOf(*authenticated) : nullptr);
    if (authenticated && brake_->Refused(CallBrake::Numbered(*authenticated), clock_.Now()))
      acceptor_->CallsTooFast(context.peer());
    return nullptr;
  }

 private:
  const SystemClock clock_;
  const std::shared_ptr<Acceptor> acceptor_;
  const std::shared_ptr<CallBrake> brake_;
};

// A connection takes two descriptors, and a coordinator has up to three listeners beside its files.
constexpr size_t kPerConnection = 2, kListeners = 3;

ConnectionLimits Fitting(ConnectionLimits limits) {
  constexpr size_t kOwnDescriptors = 128, kLeast = 8;
  const size_t all = OpenFilesLimit();
  if (all == 0) return limits;
  const size_t own = kOwnDescriptors + FilesOfDownloads(all);
  const size_t fitting = all > own ? (all - own) / (kPerConnection * kListeners) : 0;
  limits.connections = std::min(limits.connections, std::max(fitting, kLeast));
  limits.per_address = std::min(limits.per_address, limits.connections);
  return limits;
}

}  // namespace

// Plaintext as well, on the wire the same as gRPC's insecure credentials, which can ask nobody about a call.
ServerSecurity ServerSecurity::PlaintextLoopback(CallBrakeLimits limits) {
  return {grpc::experimental::LocalServerCredentials(LOCAL_TCP), true, limits, nullptr};
}

ServerSecurity ServerSecurity::WithCertificates(std::shared_ptr<grpc::ServerCredentials> credentials, EarlyCheck check,
                                                CallBrakeLimits limits) {
  return {std::move(credentials), false, limits, std::move(check)};
}

ServerSecurity::ServerSecurity(std::shared_ptr<grpc::ServerCredentials> credentials, bool loopback_only,
                               CallBrakeLimits limits, EarlyCheck check)
    : brake_(std::make_shared<CallBrake>(limits)), credentials_(std::move(credentials)), loopback_only_(loopback_only) {
  credentials_->SetAuthMetadataProcessor(MakeBrakingProcessor(brake_, std::move(check)));
}

std::shared_ptr<grpc::ServerCredentials> ServerSecurity::CredentialsFor(const std::string& address) const {
  const std::string host = WithoutPort(address);
  // gRPC takes nothing else for local; elsewhere on loopback nothing brakes.
  const bool local = host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  return loopback_only_ && !local ? grpc::InsecureServerCredentials() : credentials_;
}

uint64_t DescriptorsBeside(const ConnectionLimits& limits) {
  const uint64_t all = OpenFilesLimit();
  const uint64_t taken = kPerConnection * kListeners * Fitting(limits).connections + FilesOfDownloads(all);
  return all == 0 ? 0 : std::max<uint64_t>(1, all - std::min(all, taken));
}

Server::Server(std::shared_ptr<Acceptor> acceptor, std::unique_ptr<grpc::CallbackGenericService> others,
               std::unique_ptr<grpc::Server> server)
    : acceptor_(std::move(acceptor)), others_(std::move(others)), server_(std::move(server)) {}

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
  absl::StatusOr<std::shared_ptr<Acceptor>> acceptor = Acceptor::Listen(options.address, Fitting(options.connections));
  if (!acceptor.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.address, " (", acceptor.status().message(),
                                               "): the port is in use or the address is not this machine's; choose "
                                               "another"));
  }
  auto connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      security.CredentialsFor(options.address));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> counters;
  counters.push_back(std::make_unique<CallCounter>(*acceptor, security.brake()));
  builder.experimental().SetInterceptorCreators(std::move(counters));
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto others = std::make_unique<grpc::CallbackGenericService>();
  builder.RegisterCallbackGenericService(others.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError(absl::StrCat("gRPC does not start at ", options.address));
  (*acceptor)->Start(std::move(connections));
  return std::unique_ptr<Server>(new Server(*std::move(acceptor), std::move(others), std::move(server)));
}

void Server::AnnounceShutdown() {
  if (server_ && server_->GetHealthCheckService()) server_->GetHealthCheckService()->SetServingStatus(false);
}

void Server::Shutdown(Duration limit) {
  if (server_ == nullptr) return;
  acceptor_->Stop();
  server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(limit.ns, GPR_TIMESPAN)));
  server_->Wait();
  server_.reset();
}

}  // namespace atl
