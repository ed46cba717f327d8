#include "common/rpc/peer.h"

#include <grpc/grpc_security_constants.h>

#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace atl {
namespace {

class ReadCertificates {
 public:
  std::shared_ptr<const CertificateFacts> Of(std::string_view certificate_pem) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (const auto known = read_.find(certificate_pem); known != read_.end()) return known->second;
    std::string pem(certificate_pem);
    absl::StatusOr<CertificateFacts> facts = ReadCertificate(pem);
    if (!facts.ok()) return nullptr;
    if (read_.size() >= kKept) read_.clear();
    return read_.emplace(std::move(pem), std::make_shared<const CertificateFacts>(*std::move(facts))).first->second;
  }

 private:
  static constexpr size_t kKept = 1024;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const CertificateFacts>, std::less<>> read_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<Identity> IdentityOf(const grpc::AuthContext& context) {
  for (const grpc::string_ref& name : context.FindPropertyValues("x509_subject_alternative_name")) {
    const absl::StatusOr<Identity> identity = ParseIdentityUri(std::string(name.data(), name.size()));
    if (identity.ok()) return *identity;
  }
  return std::nullopt;
}

std::shared_ptr<const CertificateFacts> CertificateOf(const grpc::AuthContext& context) {
  static ReadCertificates read;
  const std::vector<grpc::string_ref> shown = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return shown.empty() ? nullptr : read.Of({shown[0].data(), shown[0].size()});
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
