#include "common/rpc/tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/wall_time.h"
#include "common/rpc/peer.h"
#include "common/trust/secret_files.h"

namespace atl {
namespace {

namespace tls = grpc::experimental;

// When certificates end. Each is read once, not at every call.
class Ends {
 public:
  absl::StatusOr<int64_t> Of(std::string_view certificate_pem) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (const auto known = ends_.find(certificate_pem); known != ends_.end()) return known->second;
    std::string pem(certificate_pem);
    ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(pem));
    if (ends_.size() >= kKept) ends_.clear();
    ends_.emplace(std::move(pem), facts.not_after_s);
    return facts.not_after_s;
  }

 private:
  static constexpr size_t kKept = 1024;
  Mutex mutex_;
  std::map<std::string, int64_t, std::less<>> ends_ ATOLL_GUARDED_BY(mutex_);
};

absl::Status CheckEnd(Ends& ends, const Identity& caller, const grpc::AuthContext& context, int64_t now_s) {
  const std::vector<grpc::string_ref> shown = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  const absl::StatusOr<int64_t> end_s =
      ends.Of(shown.empty() ? std::string_view() : std::string_view(shown[0].data(), shown[0].size()));
  if (!end_s.ok()) return absl::UnauthenticatedError(end_s.status().message());
  if (now_s <= *end_s) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the certificate of ", RoleName(caller.role), " '", caller.name,
                                                 "' ended at ", DateText(*end_s),
                                                 " by the coordinator's clock: ", kNewForPerson));
}

// Deny by default: a call without method or identity is nobody's.
EarlyCheck CheckEachCall(CallCheck check, const Clock& clock) {
  return [check = std::move(check), &clock, ends = std::make_shared<Ends>()](
             const std::string& method, const grpc::AuthContext& context) -> absl::Status {
    const std::optional<Identity> caller = IdentityOf(context);
    if (method.empty() || !caller) {
      return absl::UnauthenticatedError("the certificate names nobody: enrol with a join token");
    }
    if (caller->role != Role::kWorker) ATOLL_RETURN_IF_ERROR(CheckEnd(*ends, *caller, context, WallSeconds(clock)));
    return check(method, *caller);
  };
}

// Key, certificate and authority are one file, so that a look at it never finds halves of two.
std::shared_ptr<tls::CertificateProviderInterface> Watch(const std::string& file) {
  return std::make_shared<tls::FileWatcherCertificateProvider>(file, file, file, kReloadSeconds);
}

absl::Status CheckFile(const std::string& file, int64_t now_s, bool server) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, ReadIdentityFile(file));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  if (server != (facts.identity.role == Role::kCoordinator)) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is the identity of a ", RoleName(facts.identity.role),
                                                   " and cannot be used ", server ? "by" : "towards",
                                                   " a coordinator: name another file"));
  }
  return Annotate(CheckTimes(facts, now_s), file);
}

}  // namespace

absl::StatusOr<ServerSecurity> MutualTls(const std::string& identity_file, const Clock& clock, CallCheck check,
                                         CallBrakeLimits limits) {
  ATOLL_RETURN_IF_ERROR(CheckFile(identity_file, WallSeconds(clock), true));
  tls::TlsServerCredentialsOptions options(Watch(identity_file));
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return ServerSecurity::WithCertificates(tls::TlsServerCredentials(options), CheckEachCall(std::move(check), clock),
                                          limits);
}

absl::StatusOr<ServerSecurity> ServerOnlyTls(const std::string& identity_file, int64_t now_s) {
  ATOLL_RETURN_IF_ERROR(CheckFile(identity_file, now_s, true));
  tls::TlsServerCredentialsOptions options(Watch(identity_file));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return ServerSecurity::WithCertificates(tls::TlsServerCredentials(options));
}

absl::StatusOr<ChannelSecurity> MutualTlsChannel(const std::string& identity_file, int64_t now_s) {
  ATOLL_RETURN_IF_ERROR(CheckFile(identity_file, now_s, false));
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(identity_file));
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  return ChannelSecurity::WithCertificates(tls::TlsCredentials(options), kCoordinatorDnsName);
}

ChannelSecurity PinnedTlsChannel(const std::string& authority_pem) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(authority_pem));
  options.watch_root_certs();
  return ChannelSecurity::WithCertificates(tls::TlsCredentials(options), kCoordinatorDnsName);
}

}  // namespace atl
