// SPDX-License-Identifier: Apache-2.0
// The certificate authority of one coordinator: makes itself, signs requests, knows its own certificates. Its key never
// leaves the directory it was made in. A rotation gives it a new key under the same name (RFC 4210, section 4.4): from
// then on the new one signs, and the one before is trusted until it is retired. Who trusts only that one believes the
// new one by a certificate that the old key signed for the new.
#ifndef ATOLL_COMMON_TRUST_AUTHORITY_H_
#define ATOLL_COMMON_TRUST_AUTHORITY_H_

#include <cstdint>
#include <string>
#include <vector>

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
  // `certificates_pem` as below. InvalidArgument unless the key is that of an authority among them.
  static absl::StatusOr<Authority> FromPem(const std::string& certificates_pem, const std::string& key_pem);
  // Its successor, with a new key. FailedPrecondition while the one before this is still trusted, or where the clock is
  // not within this one's dates.
  absl::StatusOr<Authority> Rotated(int64_t now_s) const;
  // Itself, the one before it retired.
  Authority Alone() const;

  // Its own, self-signed.
  const std::string& certificate_pem() const { return certificate_pem_; }
  // What belongs into identities (PEM): its own, and where it was rotated, ahead of its own the one that the key before
  // signed for it (callers that trust only that one find the way in this order), and behind it that of the authority
  // before until it is retired.
  const std::string& certificates_pem() const { return certificates_pem_; }
  absl::StatusOr<std::string> key_pem() const { return key_.ToPem(); }
  // Hash of its own certificate's DER bytes: what a join token pins.
  const Sha256& fingerprint() const { return fingerprint_; }
  // Whether the authority before it is still trusted.
  bool is_rotated() const { return rotated_; }
  // When it was made.
  int64_t create_s() const { return create_s_; }
  // What was made before this moment is of a retired authority; 0: none was. While the one before it is trusted that is
  // whatever is older than that one: only one whose own predecessor is retired is rotated.
  int64_t retired_until_s() const { return rotated_ ? before_create_s_ : succeeds_ ? create_s_ : 0; }

  // The certificate (PEM) for the key of `request_pem`. InvalidArgument for a broken request or a name that is none.
  absl::StatusOr<std::string> Sign(const std::string& request_pem, const Identity& identity, int64_t now_s,
                                   int64_t lifetime_s) const;
  // PermissionDenied unless it or, while that is trusted, the one before has issued the certificate: IssuerOf below.
  absl::Status CheckIssued(const std::string& certificate_pem) const;

 private:
  explicit Authority(PrivateKey key) : key_(std::move(key)) {}
  std::string certificate_pem_, certificates_pem_;
  PrivateKey key_;
  Sha256 fingerprint_;
  bool succeeds_ = false;  // the certificate that the key before signed for it is there
  bool rotated_ = false;   // and that of the authority before
  int64_t create_s_ = 0;
  int64_t before_create_s_ = 0;  // of the authority before, while it is there
};

// What is read from an authority's own certificate.
struct AuthorityFacts {
  Sha256 fingerprint;
  int64_t not_after_s = 0;
};
// Of each authority in a PEM text like certificates_pem(); InvalidArgument when there is none.
absl::StatusOr<std::vector<AuthorityFacts>> ReadAuthorities(const std::string& certificates_pem);

// That of these authorities (PEM) whose key signed the certificate; PermissionDenied when none did. Says nothing about
// dates.
absl::StatusOr<std::string> IssuerOf(const std::string& certificate_pem, const std::string& authorities_pem);

// The authorities of `offered` (PEM) that somebody may trust who has trusted those of `held` (PEM) so far: the same
// ones, and those for whose key one of the same has signed a certificate that is offered with them. PermissionDenied
// when there is none.
absl::StatusOr<std::string> SucceedingAuthorities(const std::string& held, const std::string& offered);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_AUTHORITY_H_
