// SPDX-License-Identifier: Apache-2.0
// Keys, signing requests and certificates (X.509, ECDSA over P-256), as PEM text. This interface
// shows no OpenSSL types but the key. Times are seconds since 1970 by the wall clock, passed in by
// the caller. Thread-safe: values, no shared state.
#ifndef ATOLL_COMMON_TRUST_CERTIFICATE_H_
#define ATOLL_COMMON_TRUST_CERTIFICATE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/trust/identity.h"

struct evp_pkey_st;

namespace atl {

// The DNS name in every coordinator's certificate. Clients check this name whatever address they
// connect to, so that a coordinator may move to another address or a forwarded port. Trust is based
// on the authority.
inline constexpr char kCoordinatorDnsName[] = "server.atoll";

// Larger PEM texts are refused before they are parsed.
inline constexpr size_t kPemLimitBytes = 16384;
// Most certificates in one PEM text; it needs up to four: own, authority, previous authority and cross-certificate.
inline constexpr size_t kMostCertificates = 8;

class PrivateKey {
 public:
  // Generates a key from the system's random source. Internal when that fails.
  static absl::StatusOr<PrivateKey> Generate();
  // Reads the first private key of a PEM text. InvalidArgument when there is none or it is not
  // ECDSA over P-256. For an encrypted key (IsProtected): FailedPrecondition without a passphrase,
  // PermissionDenied with a wrong one.
  static absl::StatusOr<PrivateKey> FromPem(const std::string& pem, const std::string& passphrase = "");
  // PKCS #8. With a passphrase encrypted by AES-256 in a form that `openssl pkey` can read.
  absl::StatusOr<std::string> ToPem(const std::string& passphrase = "") const;
  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(evp_pkey_st* key);
  std::shared_ptr<evp_pkey_st> key_;
};

// True when the key in a PEM text is encrypted with a passphrase.
bool IsProtected(const std::string& pem);

// Facts from a certificate.
struct CertificateFacts {
  Identity identity;
  int64_t not_before_s = 0, not_after_s = 0;
  Sha256 fingerprint;  // of the DER bytes
  Sha256 public_key;   // of the SubjectPublicKeyInfo
};

// Reads the first certificate in a PEM text; InvalidArgument when there is none or it contains no
// identity.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);
// Advice to a person with an expired certificate: only certificates of workers can be renewed.
inline constexpr char kNewForPerson[] = "ask an admin for a new one ('atoll ca issue', or a join token)";
// FailedPrecondition with both dates and advice, unless now is within the validity.
absl::Status CheckTimes(const CertificateFacts& facts, int64_t now_s);
// Time to renew: half of the lifetime is over.
int64_t RenewAt(const CertificateFacts& facts);

// A signing request: holds the public key and proves possession of the private one.
absl::StatusOr<std::string> MakeSigningRequest(const PrivateKey& key);
// Hash of the public key in a request; InvalidArgument unless it is P-256 and signed by its own key.
absl::StatusOr<Sha256> CheckSigningRequest(const std::string& pem);

// "2026-11-21 15:04:05 UTC".
std::string DateText(int64_t seconds);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_CERTIFICATE_H_
