// SPDX-License-Identifier: Apache-2.0
// TLS for servers and channels. Changed identity files are reloaded. Except for enrolment
// (ServerOnlyTls), client certificates are required, and every call is checked before gRPC sees it.
// Servers use common/guard, channels gRPC's own TLS.
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

// Decides whether a caller may make a call ("/atoll.v1.JobService/GetJob"). Called on transport
// threads, concurrently, before the handler; must not block. An error ends the call with its code
// and message.
using CallCheck = std::function<absl::Status(const std::string& method, const CertificateFacts& caller)>;

// Interval at which a channel checks whether its identity file has changed.
inline constexpr unsigned kReloadSeconds = 1;

// Requires a certificate of the same authority from every caller. `identity_file`: see IdentityFile of
// common/trust/secret_files.h. A renewed file applies to the next handshake. Calls of a person with an
// expired certificate are refused, also on an existing connection. A worker is exempt: it renews its
// certificate, but an existing connection keeps the old one. `clock` must outlive the servers. Errors: those
// of ReadIdentityFile and CheckTimes, and InvalidArgument for an identity that is not a coordinator's.
absl::StatusOr<ServerSecurity> MutualTls(const std::string& identity_file, const Clock& clock, CallCheck check,
                                         guard::CallLimits limits = {});
// Shows its own certificate and requests none from callers. Only for enrolment.
absl::StatusOr<std::shared_ptr<guard::TlsServer>> ServerOnlyTls(const std::string& identity_file, int64_t now_s);

// Shows the identity and accepts only a coordinator of the same authority. With a `passphrase` the
// file is read once; without one it is reloaded when it changes.
absl::StatusOr<ChannelSecurity> MutualTlsChannel(const std::string& identity_file, int64_t now_s,
                                                 const std::string& passphrase = "");

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TLS_H_
