// The certificate authority of one coordinator: makes itself, signs requests, knows its own certificates. Its key never
// leaves the directory it was made in.
#ifndef ATOLL_COMMON_TRUST_AUTHORITY_H_
#define ATOLL_COMMON_TRUST_AUTHORITY_H_

#include <cstdint>
#include <string>

#include "common/trust/certificate.h"

namespace atl {

// Lives of certificates. A certificate begins ten minutes before it is made, for clocks that are behind.
inline constexpr int64_t kAuthorityLifetime_s = int64_t{10} * 365 * 86'400;
inline constexpr int64_t kWorkerLifetime_s = 86'400;
inline constexpr int64_t kUserLifetime_s = int64_t{90} * 86'400;
inline constexpr int64_t kCoordinatorLifetime_s = int64_t{7} * 86'400;
inline constexpr int64_t kClockMargin_s = 600;
// So long after its end a certificate still gets its owner a new one, by proof of the same key.
inline constexpr int64_t kRenewalGrace_s = int64_t{30} * 86'400;

// Of a certificate for that role.
int64_t LifetimeOf(Role role);

// Thread-safe.
class Authority {
 public:
  static absl::StatusOr<Authority> Create(int64_t now_s);
  // InvalidArgument unless the certificate is self-signed and the key is its key.
  static absl::StatusOr<Authority> FromPem(std::string certificate_pem, const std::string& key_pem);

  const std::string& certificate_pem() const { return certificate_pem_; }
  absl::StatusOr<std::string> key_pem() const { return key_.ToPem(); }
  // Hash of the certificate's DER bytes: what a join token pins.
  const Sha256& fingerprint() const { return fingerprint_; }

  // The certificate (PEM) for the key of `request_pem`. InvalidArgument for a broken request or a name that is none.
  absl::StatusOr<std::string> Sign(const std::string& request_pem, const Identity& identity, int64_t now_s,
                                   int64_t lifetime_s) const;
  // PermissionDenied unless this authority's key signed the certificate. Says nothing about dates.
  absl::Status CheckIssued(const std::string& certificate_pem) const;

 private:
  Authority(std::string certificate_pem, PrivateKey key, const Sha256& fingerprint);
  std::string certificate_pem_;
  PrivateKey key_;
  Sha256 fingerprint_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_AUTHORITY_H_
