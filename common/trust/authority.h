// SPDX-License-Identifier: Apache-2.0
// The certificate authority of one coordinator: creates itself, signs requests and recognises its
// own certificates. Its key never leaves its directory. A rotation creates a new key under the same
// name (RFC 4210, section 4.4). From then on the new key signs, and the previous authority stays
// trusted until it is retired. Clients that trust only the previous authority verify the new one
// through a cross-certificate: a certificate for the new key, signed by the old key.
#ifndef ATOLL_COMMON_TRUST_AUTHORITY_H_
#define ATOLL_COMMON_TRUST_AUTHORITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/trust/certificate.h"

namespace atl {

// Lifetimes of certificates. A certificate is valid from ten minutes before its creation, for
// clocks that are slow.
inline constexpr int64_t kAuthorityLifetime_s = int64_t{10} * 365 * 86'400;
inline constexpr int64_t kWorkerLifetime_s = 86'400;
inline constexpr int64_t kUserLifetime_s = int64_t{90} * 86'400;
inline constexpr int64_t kCoordinatorLifetime_s = int64_t{7} * 86'400;
inline constexpr int64_t kClockMargin_s = 600;
// For this long after its expiry, a worker's certificate can still be renewed by proof of the same key.
inline constexpr int64_t kRenewalGrace_s = int64_t{30} * 86'400;

// Lifetime of a certificate for that role.
int64_t LifetimeOf(Role role);

// Thread-safe.
class Authority {
 public:
  static absl::StatusOr<Authority> Create(int64_t now_s);
  // `certificates_pem`: a text as certificates_pem() returns it. InvalidArgument unless the key
  // belongs to one of its authorities.
  static absl::StatusOr<Authority> FromPem(const std::string& certificates_pem, const std::string& key_pem);
  // Creates a successor with a new key. FailedPrecondition while the previous authority is still
  // trusted, or when the clock is outside of this authority's validity.
  absl::StatusOr<Authority> Rotated(int64_t now_s) const;
  // Returns this authority with the previous one retired.
  Authority Alone() const;

  // Its own self-signed certificate.
  const std::string& certificate_pem() const { return certificate_pem_; }
  // Certificates for identity files (PEM). After a rotation these are the cross-certificate, this
  // authority's certificate, and the previous authority's until it is retired. The
  // cross-certificate comes first, because clients that trust only the previous authority find the
  // chain in this order.
  const std::string& certificates_pem() const { return certificates_pem_; }
  absl::StatusOr<std::string> key_pem() const { return key_.ToPem(); }
  // Hash of its own certificate's DER bytes, which a join token pins.
  const Sha256& fingerprint() const { return fingerprint_; }
  // True while the previous authority is still trusted.
  bool is_rotated() const { return rotated_; }
  // Time of creation.
  int64_t create_s() const { return create_s_; }
  // Certificates issued before this time are from a retired authority; 0: none was retired. While
  // the previous authority is trusted, this is the creation time of that authority: a rotation
  // requires that its predecessor is retired.
  int64_t retired_until_s() const { return rotated_ ? before_create_s_ : succeeds_ ? create_s_ : 0; }

  // Returns the certificate (PEM) for the key in `request_pem`. InvalidArgument for an invalid
  // request or name.
  absl::StatusOr<std::string> Sign(const std::string& request_pem, const Identity& identity, int64_t now_s,
                                   int64_t lifetime_s) const;
  // PermissionDenied unless this authority, or the previous one while it is trusted, issued the
  // certificate. Does not check dates.
  absl::Status CheckIssued(const std::string& certificate_pem) const;

 private:
  explicit Authority(PrivateKey key) : key_(std::move(key)) {}
  std::string certificate_pem_, certificates_pem_;
  PrivateKey key_;
  Sha256 fingerprint_;
  bool succeeds_ = false;  // a cross-certificate by the previous key exists
  bool rotated_ = false;   // the previous authority's certificate is still trusted
  int64_t create_s_ = 0;
  int64_t before_create_s_ = 0;  // of the previous authority, while it is trusted
};

// Facts from an authority's own certificate.
struct AuthorityFacts {
  Sha256 fingerprint;
  int64_t not_after_s = 0;
};
// Reads each authority in a PEM text like certificates_pem(); InvalidArgument when there is none.
absl::StatusOr<std::vector<AuthorityFacts>> ReadAuthorities(const std::string& certificates_pem);

// Returns the authority (PEM) with the key that signed the certificate; PermissionDenied when there
// is none. Does not check dates.
absl::StatusOr<std::string> IssuerOf(const std::string& certificate_pem, const std::string& authorities_pem);

// Returns the authorities in `offered` (PEM) that a client may trust if it has trusted those in
// `held` (PEM): those held, and those with an offered cross-certificate signed by a held one, which
// may be retired. PermissionDenied when there is none.
absl::StatusOr<std::string> SucceedingAuthorities(const std::string& held, const std::string& offered);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_AUTHORITY_H_
