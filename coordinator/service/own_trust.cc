// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/own_trust.h"

#include <utility>

#include "absl/strings/match.h"
#include "common/base/wall_time.h"
#include "common/trust/secret_files.h"

namespace atl {

absl::StatusOr<std::unique_ptr<OwnTrust>> OwnTrust::Open(OwnTrustFiles files, const Clock& clock, Log& log) {
  ATOLL_ASSIGN_OR_RETURN(Authority authority, LoadAuthority(files.authority_directory));
  std::unique_ptr<OwnTrust> trust(new OwnTrust(std::move(files), clock, log, std::move(authority)));
  ATOLL_RETURN_IF_ERROR(trust->Renew(trust->authority()));
  return trust;
}

OwnTrust::OwnTrust(OwnTrustFiles files, const Clock& clock, Log& log, Authority authority)
    : files_(std::move(files)), clock_(clock), log_(log), authority_(std::move(authority)) {}

Authority OwnTrust::authority() const {
  const MutexLock lock(mutex_);
  return authority_;
}

void OwnTrust::Adopt(Authority authority) {
  log_.Info("authority adopted", {{"signs", authority.fingerprint().Hex()},
                                  {"previous", authority.is_rotated()            ? "trusted"
                                               : authority.retired_until_s() > 0 ? "retired"
                                                                                 : "none"}});
  const MutexLock lock(mutex_);
  authority_ = std::move(authority);
}

void OwnTrust::Look() {
  if (found_) Adopt(*std::exchange(found_, std::nullopt));
  const Authority held = authority();
  absl::StatusOr<Authority> now = LoadAuthority(files_.authority_directory);
  absl::Status looked = now.status();
  if (looked.ok()) looked = Renew(*now);
  // The certificate must also be renewed while the authority cannot be read.
  const absl::Status renewed = looked.ok() ? looked : Renew(held);
  const std::string told = absl::StrCat(looked.message(), renewed == looked ? "" : renewed.message());
  if (std::exchange(told_, told) != told && !told.empty())
    log_.Error("own certificate not renewed", {{"reason", told}});
  if (!looked.ok()) return;
  if (now->fingerprint() != held.fingerprint()) {
    found_ = *std::move(now);
  } else if (now->certificates_pem() != held.certificates_pem()) {
    Adopt(*std::move(now));
  }
}

absl::Status OwnTrust::Renew(const Authority& authority) {
  const int64_t now_s = WallSeconds(clock_);
  const absl::StatusOr<IdentityFile> held = ReadIdentityFile(files_.identity);
  // An unreadable certificate is not replaced: it shows which authority the enrolled clients trust.
  if (!held.ok() && !absl::IsNotFound(held.status()))
    return Annotate(held.status(),
                    absl::StrCat("the coordinator's own certificate cannot be read; fix the file, or remove ",
                                 files_.identity, " and start again"));
  if (held.ok()) {
    ATOLL_ASSIGN_OR_RETURN(const std::string issuer, IssuerOf(held->certificate_pem, held->authority_pem));
    const absl::StatusOr<std::string> successors = SucceedingAuthorities(issuer, authority.certificates_pem());
    if (!successors.ok() || !absl::StrContains(*successors, authority.certificate_pem())) {
      return absl::FailedPreconditionError(
          absl::StrCat("--trust ", files_.authority_directory, " has another authority than ", files_.identity,
                       ", with which workers and people have enrolled: give the directory of that authority, or, to "
                       "let all of them enrol again, remove ",
                       files_.identity));
    }
    const absl::StatusOr<CertificateFacts> facts = ReadCertificate(held->certificate_pem);
    const bool same = issuer == authority.certificate_pem() && held->authority_pem == authority.certificates_pem();
    if (same && facts.ok() && now_s >= facts->not_before_s && now_s < RenewAt(*facts)) return absl::OkStatus();
  }
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity,
                         IssueIdentity(authority, {Role::kCoordinator, "coordinator", ""}, now_s));
  ATOLL_RETURN_IF_ERROR(WriteIdentityFile(files_.identity, identity));
  log_.Info("own certificate issued", {{"file", files_.identity}});
  return absl::OkStatus();
}

}  // namespace atl
