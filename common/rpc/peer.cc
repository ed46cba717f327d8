// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/peer.h"

#include "common/guard/peers.h"

namespace atl {

namespace {

// Finds the peer of a call by the name of its inner socket, "unix-abstract:NAME". The guard chose
// that name; the peer cannot influence it.
guard::Peer FindPeer(const grpc::ServerContextBase& context) {
  const std::string inner = context.peer();
  if (std::optional<guard::Peer> peer = guard::ThePeers().Find(inner.substr(inner.find(':') + 1))) return *peer;
  return {.endpoint = inner, .certificate = CertificateFacts{.identity = {Role::kCoordinator, "unknown", ""}}};
}

std::optional<Identity> IdentityOf(const guard::Peer& peer) {
  return peer.certificate ? std::optional(peer.certificate->identity) : std::nullopt;
}

}  // namespace

std::optional<Identity> IdentityOf(const grpc::ServerContextBase& context) { return IdentityOf(FindPeer(context)); }

std::string PeerOf(const grpc::ServerContextBase& context) {
  const guard::Peer peer = FindPeer(context);
  return PeerText(IdentityOf(peer), peer.endpoint);
}

absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer) {
  if (!request.ok()) return request;
  const std::optional<Identity> identity = IdentityOfPeer(peer);
  // A user's request without a name has no cap of its own and counts for no worker.
  if (identity && identity->role != Role::kWorker && request->worker.value.empty()) return request;
  ATOLL_RETURN_IF_ERROR(CheckSpeaksFor(peer, request->worker.value));
  return request;
}

}  // namespace atl
