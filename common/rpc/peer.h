// SPDX-License-Identifier: Apache-2.0
// Who calls: what a handler learns about the other end of its connection.
#ifndef ATOLL_COMMON_RPC_PEER_H_
#define ATOLL_COMMON_RPC_PEER_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "common/rpc/bulk.h"
#include "common/trust/identity.h"

namespace atl {

// The identity in the verified certificate of a call's connection; nothing where there is none, which is plaintext. A
// connection that is not known has an identity that no access rule allows anything.
std::optional<Identity> IdentityOf(const grpc::ServerContextBase& context);
// PeerText (common/trust/identity.h) of a call.
std::string PeerOf(const grpc::ServerContextBase& context);
// The request, or PermissionDenied when a worker asks in another worker's name. Users may ask without a name.
absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_PEER_H_
