#include "common/trust/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <utility>

#include "common/trust/openssl_handles.h"

namespace atl {
namespace {

using openssl::Failed;

struct Extension {
  int id;
  std::string value;
};

bool SetSerial(X509* certificate) {
  std::array<unsigned char, 16> random{};
  if (RAND_bytes(random.data(), random.size()) != 1) return false;
  random[0] &= 0x7f;  // positive
  BIGNUM* number = BN_bin2bn(random.data(), random.size(), nullptr);
  const bool done = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return done;
}

bool SetDates(X509* certificate, int64_t now_s, int64_t lifetime_s) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), now_s - kClockMargin_s) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), now_s + lifetime_s) != nullptr;
}

bool SetName(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, const Extension& extension) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, extension.id, extension.value.c_str());
  const bool added = made != nullptr && X509_add_ext(certificate, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

bool AddExtensions(X509* certificate, X509* issuer, std::initializer_list<Extension> extensions) {
  bool good = true;
  for (const Extension& extension : extensions) good = good && AddExtension(certificate, issuer, extension);
  return good;
}

absl::StatusOr<std::string> SignAndWrite(X509* certificate, const PrivateKey& key) {
  const openssl::Bio out(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, key.get(), EVP_sha256()) == 0 || PEM_write_bio_X509(out.get(), certificate) != 1) {
    return Failed("cannot sign a certificate");
  }
  return openssl::Written(out.get());
}

std::string AlternativeNames(const Identity& identity) {
  const std::string uri = absl::StrCat("URI:", IdentityUri(identity));
  return identity.role == Role::kCoordinator ? absl::StrCat("DNS:", kCoordinatorDnsName, ",", uri) : uri;
}

}  // namespace

int64_t LifetimeOf(Role role) {
  return role == Role::kWorker        ? kWorkerLifetime_s
         : role == Role::kCoordinator ? kCoordinatorLifetime_s
                                      : kUserLifetime_s;
}

Authority::Authority(std::string certificate_pem, PrivateKey key, const Sha256& fingerprint)
    : certificate_pem_(std::move(certificate_pem)), key_(std::move(key)), fingerprint_(fingerprint) {}

absl::StatusOr<Authority> Authority::Create(int64_t now_s) {
  ATOLL_ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::Generate());
  const openssl::Certificate made(X509_new());
  X509* certificate = made.get();
  // The name tells one authority from another in messages of other tools; nothing of ours reads it.
  const std::string name = absl::StrCat("atoll authority ", openssl::PublicKeyHash(key.get()).Hex().substr(0, 16));
  if (certificate == nullptr || X509_set_version(certificate, X509_VERSION_3) != 1 || !SetSerial(certificate) ||
      !SetDates(certificate, now_s, kAuthorityLifetime_s) || X509_set_pubkey(certificate, key.get()) != 1 ||
      !SetName(X509_get_subject_name(certificate), name) || !SetName(X509_get_issuer_name(certificate), name) ||
      !AddExtensions(certificate, certificate,
                     {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                      {NID_subject_key_identifier, "hash"}})) {
    return Failed("cannot make the authority's certificate");
  }
  ATOLL_ASSIGN_OR_RETURN(std::string pem, SignAndWrite(certificate, key));
  return Authority(std::move(pem), std::move(key), openssl::Fingerprint(certificate));
}

absl::StatusOr<Authority> Authority::FromPem(std::string certificate_pem, const std::string& key_pem) {
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate certificate, openssl::ParseCertificate(certificate_pem));
  ATOLL_ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::FromPem(key_pem));
  const bool own = X509_check_private_key(certificate.get(), key.get()) == 1 && X509_check_ca(certificate.get()) == 1 &&
                   X509_verify(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!own) return absl::InvalidArgumentError("the key is not the key of this authority's certificate");
  const Sha256 fingerprint = openssl::Fingerprint(certificate.get());
  return Authority(std::move(certificate_pem), std::move(key), fingerprint);
}

absl::StatusOr<std::string> Authority::Sign(const std::string& request_pem, const Identity& identity, int64_t now_s,
                                            int64_t lifetime_s) const {
  // What would not be read back is not signed; this also keeps separators of the name list out.
  ATOLL_RETURN_IF_ERROR(ParseIdentityUri(IdentityUri(identity)).status());
  ATOLL_ASSIGN_OR_RETURN(const openssl::Request request, openssl::ParseRequest(request_pem));
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate issuer, openssl::ParseCertificate(certificate_pem_));
  const openssl::Certificate made(X509_new());
  X509* certificate = made.get();
  const bool server = identity.role == Role::kCoordinator;
  if (certificate == nullptr || X509_set_version(certificate, X509_VERSION_3) != 1 || !SetSerial(certificate) ||
      !SetDates(certificate, now_s, lifetime_s) ||
      X509_set_pubkey(certificate, X509_REQ_get0_pubkey(request.get())) != 1 ||
      !SetName(X509_get_subject_name(certificate), identity.name) ||
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer.get())) != 1 ||
      !AddExtensions(certificate, issuer.get(),
                     {{NID_basic_constraints, "critical,CA:FALSE"},
                      {NID_key_usage, "critical,digitalSignature"},
                      {NID_ext_key_usage, server ? "serverAuth" : "clientAuth"},
                      {NID_subject_alt_name, AlternativeNames(identity)},
                      {NID_authority_key_identifier, "keyid:always"}})) {
    return Failed("cannot make a certificate");
  }
  return SignAndWrite(certificate, key_);
}

absl::Status Authority::CheckIssued(const std::string& certificate_pem) const {
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate certificate, openssl::ParseCertificate(certificate_pem));
  const bool issued = X509_verify(certificate.get(), key_.get()) == 1;
  ERR_clear_error();
  if (issued) return absl::OkStatus();
  return absl::PermissionDeniedError("the certificate was issued by another authority: enrol with a join token");
}

}  // namespace atl
