// Who calls: what a handler learns about the other end of its connection.
#ifndef ATOLL_COMMON_RPC_PEER_H_
#define ATOLL_COMMON_RPC_PEER_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "common/rpc/bulk.h"
#include "common/trust/certificate.h"
#include "common/trust/identity.h"

namespace atl {

// The identity in the verified certificate of a connection; nothing where there is none, which is plaintext.
std::optional<Identity> IdentityOf(const grpc::AuthContext& context);
// What the verified certificate says; null where there is none. Thread-safe; each certificate is read once, not at
// every call.
std::shared_ptr<const CertificateFacts> CertificateOf(const grpc::AuthContext& context);
// PeerText (common/trust/identity.h) of a call.
std::string PeerOf(const grpc::ServerContextBase& context);
// The request, or PermissionDenied when a worker asks in another worker's name. Users may ask without a name.
absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_PEER_H_
