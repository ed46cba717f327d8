// SPDX-License-Identifier: Apache-2.0
// Owners of OpenSSL objects and readers of PEM, for common/trust and common/guard/tls_server.cc only.
#ifndef ATOLL_COMMON_TRUST_OPENSSL_HANDLES_H_
#define ATOLL_COMMON_TRUST_OPENSSL_HANDLES_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl::openssl {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* p) const { Free(p); }
};
inline void FreeBio(BIO* bio) { BIO_free_all(bio); }

using Bio = std::unique_ptr<BIO, Freer<BIO, FreeBio>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using KeyInfo = std::unique_ptr<PKCS8_PRIV_KEY_INFO, Freer<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free>>;
using SealedKey = std::unique_ptr<X509_SIG, Freer<X509_SIG, X509_SIG_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Request = std::unique_ptr<X509_REQ, Freer<X509_REQ, X509_REQ_free>>;

// Internal with OpenSSL's newest error: "what: reason". Clears the error queue.
absl::Status Failed(const std::string& what);
// A BIO that reads `text`, which must outlive it.
Bio Reader(const std::string& text);
// Returns the content of a memory BIO.
std::string Written(BIO* bio);
// Parses the first certificate of a PEM text; InvalidArgument.
absl::StatusOr<Certificate> ParseCertificate(const std::string& pem);
// Parses all certificates in order, at least one and at most kMostCertificates; InvalidArgument.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem);
// PEM.
absl::StatusOr<std::string> WriteCertificate(const X509* certificate);
// True for an authority's own certificate: may sign others, and is self-signed.
bool IsRoot(X509* certificate);
enum class Signed { kCertificate, kRequest };
// Whether a certificate or a signing request in DER has a public key that OpenSSL decodes at once: P-256 by name,
// uncompressed, the only kind that is used. To be asked before OpenSSL reads bytes of a peer: a crafted key with
// parameters of its own takes a third of a second.
bool HasP256Key(std::span<const uint8_t> der, Signed kind);
// Parses a request that is signed by its own P-256 key; InvalidArgument.
absl::StatusOr<Request> ParseRequest(const std::string& pem);
absl::Status CheckP256(const EVP_PKEY* key);
// Seconds since 1970; InvalidArgument.
absl::StatusOr<int64_t> SecondsOf(const ASN1_TIME* time);
Sha256 Fingerprint(const X509* certificate);
Sha256 PublicKeyHash(EVP_PKEY* key);

}  // namespace atl::openssl

#endif  // ATOLL_COMMON_TRUST_OPENSSL_HANDLES_H_
