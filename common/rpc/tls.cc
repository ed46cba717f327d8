// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/wall_time.h"
#include "common/trust/secret_files.h"

namespace atl {
namespace {

namespace tls = grpc::experimental;

absl::Status CheckEnd(const CertificateFacts& facts, int64_t now_s) {
  if (now_s <= facts.not_after_s) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the certificate of ", RoleName(facts.identity.role), " '",
                                                 facts.identity.name, "' ended at ", DateText(facts.not_after_s),
                                                 " by the coordinator's clock: ", kNewForPerson));
}

// Denies by default: a call without method or identity is unauthenticated.
guard::CallCheck CheckEachCall(CallCheck check, const Clock& clock) {
  return [check = std::move(check), &clock](const std::string& method, const guard::Peer& peer) -> absl::Status {
    if (method.empty() || !peer.certificate) {
      return absl::UnauthenticatedError("the certificate names nobody: enrol with a join token");
    }
    if (peer.certificate->identity.role != Role::kWorker)
      ATOLL_RETURN_IF_ERROR(CheckEnd(*peer.certificate, WallSeconds(clock)));
    return check(method, *peer.certificate);
  };
}

// Key, certificate and authority are in one file, so that a read never mixes two versions.
std::shared_ptr<tls::CertificateProviderInterface> Watch(const std::string& file) {
  return std::make_shared<tls::FileWatcherCertificateProvider>(file, file, file, kReloadSeconds);
}

absl::StatusOr<IdentityFile> ReadChecked(const std::string& file, int64_t now_s, bool server,
                                         const std::string& passphrase = "") {
  ATOLL_ASSIGN_OR_RETURN(IdentityFile identity, ReadIdentityFile(file, passphrase));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  if (server != (facts.identity.role == Role::kCoordinator)) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is the identity of a ", RoleName(facts.identity.role),
                                                   " and cannot be used ", server ? "by" : "towards",
                                                   " a coordinator: name another file"));
  }
  ATOLL_RETURN_IF_ERROR(Annotate(CheckTimes(facts, now_s), file));
  return identity;
}

}  // namespace

absl::StatusOr<ServerSecurity> MutualTls(const std::string& identity_file, const Clock& clock, CallCheck check,
                                         guard::CallLimits limits) {
  ATOLL_RETURN_IF_ERROR(ReadChecked(identity_file, WallSeconds(clock), true).status());
  ATOLL_ASSIGN_OR_RETURN(std::shared_ptr<guard::TlsServer> tls,
                         guard::TlsServer::Open(identity_file, guard::ClientCertificates::kDemanded));
  return ServerSecurity::WithCertificates(std::move(tls), CheckEachCall(std::move(check), clock), limits);
}

absl::StatusOr<std::shared_ptr<guard::TlsServer>> ServerOnlyTls(const std::string& identity_file, int64_t now_s) {
  ATOLL_RETURN_IF_ERROR(ReadChecked(identity_file, now_s, true).status());
  return guard::TlsServer::Open(identity_file, guard::ClientCertificates::kNotAsked);
}

absl::StatusOr<ChannelSecurity> MutualTlsChannel(const std::string& identity_file, int64_t now_s,
                                                 const std::string& passphrase) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, ReadChecked(identity_file, now_s, false, passphrase));
  tls::TlsChannelCredentialsOptions options;
  if (passphrase.empty()) {
    options.set_certificate_provider(Watch(identity_file));
  } else {
    options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
        identity.authority_pem, std::vector<tls::IdentityKeyCertPair>{{identity.key_pem, identity.certificate_pem}}));
  }
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  return ChannelSecurity::WithCertificates(tls::TlsCredentials(options), kCoordinatorDnsName);
}

}  // namespace atl
