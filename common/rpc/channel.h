// SPDX-License-Identifier: Apache-2.0
// Channels and call contexts. A worker has two channels to its coordinator, control and bulk. Each
// channel has its own subchannel pool and hence its own socket: a heartbeat never waits for a
// fragment (docs/design.md section 5).
#ifndef ATOLL_COMMON_RPC_CHANNEL_H_
#define ATOLL_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

// Authentication of a connection.
class ChannelSecurity {
 public:
  // No authentication. MakeControlChannel and MakeBulkChannel return InvalidArgument unless the
  // address is loopback (127.0.0.0/8, [::1], localhost) or a unix socket.
  static ChannelSecurity PlaintextLoopback();
  // Any address. The server must show a certificate for `server_name`. Made by common/rpc/tls.h.
  static ChannelSecurity WithCertificates(std::shared_ptr<grpc::ChannelCredentials> credentials,
                                          std::string server_name);
  const std::shared_ptr<grpc::ChannelCredentials>& credentials() const { return credentials_; }
  bool loopback_only() const { return loopback_only_; }
  const std::string& server_name() const { return server_name_; }

 private:
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::string server_name_;  // empty: plaintext
  bool loopback_only_ = true;
};

struct ChannelOptions {
  std::string address;  // "127.0.0.1:7700"
  Duration keepalive_interval = Seconds(30);
  Duration keepalive_timeout = Seconds(10);
  // Calls ("/atoll.v1.JobService/GetJob") that gRPC makes again, up to four times in about five seconds, when
  // they are refused with RESOURCE_EXHAUSTED: their caller asked too often.
  std::vector<std::string> repeated;
};

// True for 127.0.0.0/8, [::1], localhost and unix: addresses.
bool IsLoopback(const std::string& address);

// A channel for unary calls and the control stream. Connects lazily and reconnects after 0.1 to 5
// s. InvalidArgument when `security` forbids the address.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeControlChannel(const ChannelOptions& options,
                                                                  const ChannelSecurity& security);
// A channel for the bulk connection, which never shares a socket with another channel.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeBulkChannel(const ChannelOptions& options,
                                                               const ChannelSecurity& security);

// Sets the deadline of a unary call, by default limits::kControlDeadline. Must be called for every
// unary call.
void SetDeadline(grpc::ClientContext& context);
void SetDeadline(grpc::ClientContext& context, Duration limit);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CHANNEL_H_
