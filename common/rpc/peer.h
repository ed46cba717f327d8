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
// connection gets an identity to which no access rule allows any call.
std::optional<Identity> IdentityOf(const grpc::ServerContextBase& context);
// PeerText (common/trust/identity.h) of the call's peer.
std::string PeerOf(const grpc::ServerContextBase& context);
// Returns the request, or PermissionDenied unless the caller is the worker that the request names.
// Users must leave out the name; without certificates any name is accepted.
absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_PEER_H_
