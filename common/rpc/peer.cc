#include "common/rpc/peer.h"

namespace atl {

std::optional<Identity> IdentityOf(const grpc::AuthContext& context) {
  for (const grpc::string_ref& name : context.FindPropertyValues("x509_subject_alternative_name")) {
    const absl::StatusOr<Identity> identity = ParseIdentityUri(std::string(name.data(), name.size()));
    if (identity.ok()) return *identity;
  }
  return std::nullopt;
}

std::string PeerOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> authenticated = context.auth_context();
  return PeerText(authenticated == nullptr ? std::nullopt : IdentityOf(*authenticated), context.peer());
}

absl::StatusOr<DownloadRequest> InOwnName(absl::StatusOr<DownloadRequest> request, const std::string& peer) {
  if (!request.ok()) return request;
  const std::optional<Identity> identity = IdentityOfPeer(peer);
  // A user's request without a name has no cap of its own and is nobody's account.
  if (identity && identity->role != Role::kWorker && request->worker.value.empty()) return request;
  ATOLL_RETURN_IF_ERROR(CheckSpeaksFor(peer, request->worker.value));
  return request;
}

}  // namespace atl
