// SPDX-License-Identifier: Apache-2.0
// TLS for servers and channels: identity files that are read again when they change, client certificates that are
// demanded, and a check of every call before gRPC hears of it. Servers: common/guard. Channels: gRPC's own TLS.
#ifndef ATOLL_COMMON_RPC_TLS_H_
#define ATOLL_COMMON_RPC_TLS_H_

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/trust/certificate.h"

namespace atl {

// Says whether a caller may make a call ("/atoll.v1.JobService/GetJob"). Called on transport threads, at once from
// several, before the handler; must not wait. An error ends the call with its code and message.
using CallCheck = std::function<absl::Status(const std::string& method, const CertificateFacts& caller)>;

// How often identity files are looked at.
inline constexpr unsigned kReloadSeconds = 1;

// Demands a certificate of the same authority from every caller. `identity_file` as IdentityFile of
// common/trust/secret_files.h; a renewed file serves the next handshake. Refuses calls of a person whose certificate
// has ended, also on a connection that was made before; a worker renews its own, and its connection knows nothing of
// that. `clock` outlives the servers. Errors of ReadIdentityFile and CheckTimes.
absl::StatusOr<ServerSecurity> MutualTls(const std::string& identity_file, const Clock& clock, CallCheck check,
                                         guard::CallLimits limits = {});
// Shows its own certificate and asks callers for none: for enrolment only.
absl::StatusOr<std::shared_ptr<guard::TlsServer>> ServerOnlyTls(const std::string& identity_file, int64_t now_s);

// Shows the identity and accepts only a coordinator of the same authority. A file that is protected by `passphrase` is
// read once, any other again when it changes.
absl::StatusOr<ChannelSecurity> MutualTlsChannel(const std::string& identity_file, int64_t now_s,
                                                 const std::string& passphrase = "");
// Shows nothing and accepts only a coordinator of that authority (PEM).
ChannelSecurity PinnedTlsChannel(const std::string& authority_pem);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TLS_H_
