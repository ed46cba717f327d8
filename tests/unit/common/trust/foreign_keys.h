// SPDX-License-Identifier: Apache-2.0
// Certificates and signing requests with keys of other kinds than Atoll's, for tests.
#ifndef ATOLL_TESTS_UNIT_COMMON_TRUST_FOREIGN_KEYS_H_
#define ATOLL_TESTS_UNIT_COMMON_TRUST_FOREIGN_KEYS_H_

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <string>

#include "common/trust/openssl_handles.h"

namespace atl::openssl {

enum class KeyKind { kNamed, kExplicit, kCompressed, kP384 };

inline Key MakeKey(KeyKind kind) {
  Key key(EVP_EC_gen(kind == KeyKind::kP384 ? "P-384" : "P-256"));
  if (kind == KeyKind::kExplicit)
    EXPECT_EQ(EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_ENCODING, "explicit"), 1);
  if (kind == KeyKind::kCompressed)
    EXPECT_EQ(EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "compressed"), 1);
  return key;
}

// Signed by its own key.
inline Certificate MakeCertificate(const Key& key) {
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  return certificate;
}

inline std::string MakeRequest(const Key& key) {
  const Request request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key.get());
  EXPECT_GT(X509_REQ_sign(request.get(), key.get(), EVP_sha256()), 0);
  const Bio out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(out.get(), request.get());
  return Written(out.get());
}

}  // namespace atl::openssl

#endif  // ATOLL_TESTS_UNIT_COMMON_TRUST_FOREIGN_KEYS_H_
