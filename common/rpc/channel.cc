// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/host_port.h"
#include "common/plan/limits.h"
#include "common/rpc/socket_options.h"

namespace atl {
namespace {

int Milli(Duration d) { return static_cast<int>(std::min<int64_t>(d.ns / 1'000'000, INT32_MAX)); }

// Returns gRPC's service config for ChannelOptions::repeated (github.com/grpc/proposal, A6).
std::string ServiceConfigOf(const std::vector<std::string>& repeated) {
  std::vector<std::string> names;
  for (const std::string& method : repeated) {
    const size_t slash = method.rfind('/');
    names.push_back(absl::StrCat(R"({"service":")", method.substr(1, slash - 1), R"(","method":")",
                                 method.substr(slash + 1), R"("})"));
  }
  return absl::StrCat(R"({"methodConfig":[{"name":[)", absl::StrJoin(names, ","),
                      R"(],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.5s","maxBackoff":"2s",)",
                      R"("backoffMultiplier":2,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]})");
}

grpc::ChannelArguments Arguments(const ChannelOptions& options) {
  grpc::ChannelArguments args;
  // Each channel has its own pool: channels to the same address do not share a socket.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milli(options.keepalive_interval));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milli(options.keepalive_timeout));
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Time limit of one connection attempt, until the server's HTTP/2 SETTINGS arrive: enough for
  // several round trips of a slow link plus some lost segments.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // Connects to the given host and port itself, even if the environment names a proxy (http_proxy).
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessageBytes));
  args.SetMaxSendMessageSize(static_cast<int>(limits::kMessageBytes));
  if (!options.repeated.empty()) args.SetServiceConfigJSON(ServiceConfigOf(options.repeated));
  return args;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options,
                                                           const ChannelSecurity& security,
                                                           grpc::ChannelArguments args) {
  if (security.loopback_only() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.address,
                     "' is not a loopback address, and without certificates "
                     "only loopback is allowed: give your identity file with --identity (a worker "
                     "gets one with --join-token), or use 127.0.0.1:PORT"));
  }
  if (!security.server_name().empty()) args.SetSslTargetNameOverride(security.server_name());
  return grpc::CreateCustomChannel(options.address, security.credentials(), args);
}

}  // namespace

ChannelSecurity ChannelSecurity::PlaintextLoopback() {
  ChannelSecurity security;
  security.credentials_ = grpc::InsecureChannelCredentials();
  return security;
}

ChannelSecurity ChannelSecurity::WithCertificates(std::shared_ptr<grpc::ChannelCredentials> credentials,
                                                  std::string server_name) {
  ChannelSecurity security;
  security.credentials_ = std::move(credentials);
  security.server_name_ = std::move(server_name);
  security.loopback_only_ = false;
  return security;
}

bool IsLoopback(const std::string& address) {
  if (address.rfind("unix:", 0) == 0) return true;
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && IsLoopbackHost(parsed->host);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeControlChannel(const ChannelOptions& options,
                                                                  const ChannelSecurity& security) {
  return MakeChannel(options, security, Arguments(options));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeBulkChannel(const ChannelOptions& options,
                                                               const ChannelSecurity& security) {
  grpc::ChannelArguments args = Arguments(options);
  args.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 1);
  KeepUnsentShort(args);
  return MakeChannel(options, security, args);
}

void SetDeadline(grpc::ClientContext& context) { SetDeadline(context, limits::kControlDeadline); }

void SetDeadline(grpc::ClientContext& context, Duration limit) {
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(limit.ns, GPR_TIMESPAN)));
}

}  // namespace atl
