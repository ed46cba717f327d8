// SPDX-License-Identifier: Apache-2.0
#include "common/trust/certificate.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "common/trust/openssl_handles.h"

namespace atl {
namespace openssl {
namespace {

absl::Status CheckSize(const std::string& pem) {
  if (pem.size() <= kPemLimitBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a PEM text of ", pem.size(), " bytes is longer than ", kPemLimitBytes, " bytes"));
}

// Reads elements of DER. Refuses lengths of more than 64 KiB, and indefinite lengths, which only BER allows.
class Der {
 public:
  explicit Der(std::span<const uint8_t> bytes) : rest_(bytes) {}
  // Removes the next element if it has that tag. False: it has not, or is incomplete; nothing is removed.
  bool Take(uint8_t tag) { return Enter(tag).has_value(); }
  std::optional<Der> Enter(uint8_t tag) {
    if (rest_.size() < 2 || rest_[0] != tag) return std::nullopt;
    size_t head = 2, length = rest_[1];
    if (length > 0x80 && length <= 0x82) {
      head += length - 0x80;
      if (rest_.size() < head) return std::nullopt;
      length = 0;
      for (size_t i = 2; i < head; ++i) length = length << 8 | rest_[i];
    } else if (length >= 0x80) {
      return std::nullopt;
    }
    if (length > rest_.size() - head) return std::nullopt;
    const Der inside(rest_.subspan(head, length));
    rest_ = rest_.subspan(head + length);
    return inside;
  }
  std::span<const uint8_t> rest() const { return rest_; }

 private:
  std::span<const uint8_t> rest_;
};

constexpr uint8_t kInteger = 0x02, kSequence = 0x30, kVersion = 0xa0;

// The next certificate or request of the PEM text; null, with OpenSSL's error, when none follows or it cannot be
// read: its key is not P-256, or it has a header, as an encrypted text has (OpenSSL would ask for the passphrase).
template <typename T, Signed kind, typename Parse>
T NextOf(BIO* reader, Parse parse) {
  char *name = nullptr, *header = nullptr;
  unsigned char* der = nullptr;
  long size = 0;
  while (PEM_read_bio(reader, &name, &header, &der, &size) == 1) {
    const std::string_view found = name;
    const bool right = kind == Signed::kCertificate ? found == PEM_STRING_X509
                                                    : found == PEM_STRING_X509_REQ || found == PEM_STRING_X509_REQ_OLD;
    const bool readable = right && *header == '\0' && HasP256Key(std::span(der, static_cast<size_t>(size)), kind);
    const unsigned char* at = der;
    T next(readable ? parse(nullptr, &at, size) : nullptr);
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    if (right && !readable) ERR_raise(ERR_LIB_PEM, PEM_R_UNSUPPORTED_ENCRYPTION);
    if (right) return next;
  }
  return nullptr;
}

}  // namespace

bool HasP256Key(std::span<const uint8_t> der, Signed kind) {
  // SubjectPublicKeyInfo up to the two coordinates (RFC 5480): ecPublicKey, prime256v1, uncompressed.
  static constexpr std::array<uint8_t, 27> kKey = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                                   0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                                   0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04};
  std::optional<Der> whole = Der(der).Enter(kSequence);
  std::optional<Der> body = whole ? whole->Enter(kSequence) : std::nullopt;
  if (!body) return false;
  if (kind == Signed::kCertificate) {
    body->Take(kVersion);
    // Serial number, algorithm, issuer, validity; then the subject.
    if (!body->Take(kInteger)) return false;
    for (int i = 0; i < 3; ++i) {
      if (!body->Take(kSequence)) return false;
    }
  } else if (!body->Take(kInteger)) {
    return false;
  }
  if (!body->Take(kSequence)) return false;
  const std::span<const uint8_t> key = body->rest();
  return key.size() >= 91 && std::equal(kKey.begin(), kKey.end(), key.begin());
}

absl::Status Failed(const std::string& what) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_peek_last_error(), reason.data(), reason.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", reason.data()));
}

Bio Reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

absl::StatusOr<Certificate> ParseCertificate(const std::string& pem) {
  ATOLL_RETURN_IF_ERROR(CheckSize(pem));
  Certificate certificate = NextOf<Certificate, Signed::kCertificate>(Reader(pem).get(), d2i_X509);
  ERR_clear_error();
  if (!certificate)
    return absl::InvalidArgumentError(
        "there is no certificate with an ECDSA key over P-256, the only supported kind, in the PEM text");
  return certificate;
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem) {
  ATOLL_RETURN_IF_ERROR(CheckSize(pem));
  const Bio reader = Reader(pem);
  std::vector<Certificate> all;
  while (Certificate next = NextOf<Certificate, Signed::kCertificate>(reader.get(), d2i_X509))
    all.push_back(std::move(next));
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!whole) return absl::InvalidArgumentError("a certificate in the PEM text cannot be read");
  if (!all.empty() && all.size() <= kMostCertificates) return all;
  return absl::InvalidArgumentError(
      absl::StrCat("there are ", all.size(), " certificates in the PEM text instead of 1 to ", kMostCertificates));
}

absl::StatusOr<std::string> WriteCertificate(const X509* certificate) {
  const Bio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(out.get(), certificate) != 1) return Failed("cannot write a certificate");
  return Written(out.get());
}

bool IsRoot(X509* certificate) {
  const bool root = X509_check_ca(certificate) == 1 && X509_self_signed(certificate, 1) == 1;
  ERR_clear_error();
  return root;
}

absl::StatusOr<Request> ParseRequest(const std::string& pem) {
  ATOLL_RETURN_IF_ERROR(CheckSize(pem));
  Request request = NextOf<Request, Signed::kRequest>(Reader(pem).get(), d2i_X509_REQ);
  ERR_clear_error();
  if (!request)
    return absl::InvalidArgumentError(
        "there is no certificate signing request with an ECDSA key over P-256, the only supported kind, in the PEM "
        "text");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  ATOLL_RETURN_IF_ERROR(CheckP256(key));
  const bool own = X509_REQ_verify(request.get(), key) == 1;
  ERR_clear_error();
  if (!own) return absl::InvalidArgumentError("the signing request is not signed by its own key");
  return request;
}

absl::Status CheckP256(const EVP_PKEY* key) {
  std::array<char, 64> group{};
  size_t length = 0;
  if (key != nullptr && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
      EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1 &&
      std::string(group.data(), length) == "prime256v1") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the key is not ECDSA over P-256, the only supported kind");
}

Sha256 Fingerprint(const X509* certificate) {
  Sha256 out;
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), out.bytes.data(), &size);
  return out;
}

Sha256 PublicKeyHash(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return {};
  const Sha256 out = Sha256Of(std::as_bytes(std::span(der, static_cast<size_t>(size))));
  OPENSSL_free(der);
  return out;
}

absl::StatusOr<int64_t> SecondsOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InvalidArgumentError("the certificate contains an invalid date");
  return static_cast<int64_t>(timegm(&parts));
}

}  // namespace openssl

namespace {

using openssl::Failed;
using openssl::SecondsOf;

// Iterations of PBKDF2 with HMAC-SHA-256: a fifth of a second for each guess.
constexpr int kPassphraseIterations = 600'000;

// A pem_password_cb; OpenSSL calls it only for an encrypted key. `given`: the std::string.
int GivePassphrase(char* buffer, int size, int, void* given) {
  const auto& passphrase = *static_cast<const std::string*>(given);
  if (passphrase.empty() || passphrase.size() > static_cast<size_t>(size)) return -1;
  std::copy(passphrase.begin(), passphrase.end(), buffer);
  return static_cast<int>(passphrase.size());
}

// Reads the first URI among the alternative names.
absl::StatusOr<Identity> IdentityOf(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string uri;
  for (int i = 0; i < sk_GENERAL_NAME_num(names) && uri.empty(); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
  }
  GENERAL_NAMES_free(names);
  return ParseIdentityUri(uri);
}

}  // namespace

PrivateKey::PrivateKey(evp_pkey_st* key) : key_(key, EVP_PKEY_free) {}

absl::StatusOr<PrivateKey> PrivateKey::Generate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  if (key == nullptr) return Failed("cannot create a key");
  return PrivateKey(key);
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(const std::string& pem, const std::string& passphrase) {
  ATOLL_RETURN_IF_ERROR(openssl::CheckSize(pem));
  const bool is_protected = IsProtected(pem);
  if (is_protected && passphrase.empty())
    return absl::FailedPreconditionError("the private key is protected by a passphrase");
  std::string given = passphrase;
  EVP_PKEY* key = PEM_read_bio_PrivateKey(openssl::Reader(pem).get(), nullptr, GivePassphrase, &given);
  ERR_clear_error();
  if (key == nullptr && is_protected)
    return absl::PermissionDeniedError("the passphrase does not open the private key");
  if (key == nullptr) return absl::InvalidArgumentError("there is no readable private key in the PEM text");
  PrivateKey owned(key);
  ATOLL_RETURN_IF_ERROR(openssl::CheckP256(key));
  return owned;
}

absl::StatusOr<std::string> PrivateKey::ToPem(const std::string& passphrase) const {
  const openssl::Bio out(BIO_new(BIO_s_mem()));
  if (!passphrase.empty()) {
    const openssl::KeyInfo plain(EVP_PKEY2PKCS8(key_.get()));
    if (!plain) return Failed("cannot protect a key");
    const openssl::SealedKey sealed(PKCS8_encrypt(-1, EVP_aes_256_cbc(), passphrase.data(),
                                                  static_cast<int>(passphrase.size()), nullptr, 0,
                                                  kPassphraseIterations, plain.get()));
    if (!sealed || PEM_write_bio_PKCS8(out.get(), sealed.get()) != 1) return Failed("cannot protect a key");
  } else if (PEM_write_bio_PKCS8PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("cannot write a key");
  }
  return openssl::Written(out.get());
}

bool IsProtected(const std::string& pem) { return absl::StrContains(pem, "ENCRYPTED"); }

absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem) {
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate certificate, openssl::ParseCertificate(pem));
  CertificateFacts facts;
  ATOLL_ASSIGN_OR_RETURN(facts.identity, IdentityOf(certificate.get()));
  ATOLL_ASSIGN_OR_RETURN(facts.not_before_s, SecondsOf(X509_get0_notBefore(certificate.get())));
  ATOLL_ASSIGN_OR_RETURN(facts.not_after_s, SecondsOf(X509_get0_notAfter(certificate.get())));
  facts.fingerprint = openssl::Fingerprint(certificate.get());
  facts.public_key = openssl::PublicKeyHash(X509_get0_pubkey(certificate.get()));
  return facts;
}

absl::Status CheckTimes(const CertificateFacts& facts, int64_t now_s) {
  const std::string who = absl::StrCat("the certificate of ", RoleName(facts.identity.role), " '", facts.identity.name);
  if (now_s < facts.not_before_s) {
    return absl::FailedPreconditionError(absl::StrCat(who, "' is valid from ", DateText(facts.not_before_s),
                                                      ", but this machine's clock shows ", DateText(now_s),
                                                      ": set the clock right"));
  }
  if (now_s > facts.not_after_s) {
    const bool renewed = facts.identity.role == Role::kWorker || facts.identity.role == Role::kCoordinator;
    const char* const way_out = renewed ? "renew it" : kNewForPerson;
    return absl::FailedPreconditionError(absl::StrCat(who, "' expired at ", DateText(facts.not_after_s),
                                                      ", but this machine's clock shows ", DateText(now_s), ": ",
                                                      way_out, ", or set the clock right"));
  }
  return absl::OkStatus();
}

int64_t RenewAt(const CertificateFacts& facts) {
  return facts.not_before_s + (facts.not_after_s - facts.not_before_s) / 2;
}

absl::StatusOr<std::string> MakeSigningRequest(const PrivateKey& key) {
  const openssl::Request request(X509_REQ_new());
  const openssl::Bio out(BIO_new(BIO_s_mem()));
  if (!request || X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(out.get(), request.get()) != 1) {
    return Failed("cannot create a signing request");
  }
  return openssl::Written(out.get());
}

absl::StatusOr<Sha256> CheckSigningRequest(const std::string& pem) {
  ATOLL_ASSIGN_OR_RETURN(const openssl::Request request, openssl::ParseRequest(pem));
  return openssl::PublicKeyHash(X509_REQ_get0_pubkey(request.get()));
}

std::string DateText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &parts) == nullptr) return "an impossible date";
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), size};
}

}  // namespace atl
