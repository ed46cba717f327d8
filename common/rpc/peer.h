// SPDX-License-Identifier: Apache-2.0
// The caller of an RPC.
#ifndef ATOLL_COMMON_RPC_PEER_H_
#define ATOLL_COMMON_RPC_PEER_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "common/rpc/bulk.h"
#include "common/trust/identity.h"

namespace atl {

// Identity in the verified certificate of a call's connection; nullopt for plaintext. An unknown
// connection gets an identity that no access rule permits anything.
std::optional<Identity> IdentityOf(const grpc::ServerContextBase& context);
// PeerText (common/trust/identity.h) of the call's peer.
std::string PeerOf(const grpc::ServerContextBase& context);
// Returns the request, or PermissionDenied when a worker asks in another worker's name. Users may
// leave out the name.
absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_PEER_H_
