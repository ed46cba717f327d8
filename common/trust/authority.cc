// SPDX-License-Identifier: Apache-2.0
#include "common/trust/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "common/trust/openssl_handles.h"

namespace atl {
namespace {

using openssl::Failed;
using Name = std::unique_ptr<X509_NAME, openssl::Freer<X509_NAME, X509_NAME_free>>;

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

bool Signed(X509* certificate, const PrivateKey& key) { return X509_sign(certificate, key.get(), EVP_sha256()) != 0; }

// True when `key` signed the certificate.
bool IsSignedBy(X509* certificate, EVP_PKEY* key) {
  const bool is = X509_verify(certificate, key) == 1;
  ERR_clear_error();
  return is;
}

bool IsKeyOf(X509* certificate, EVP_PKEY* key) {
  return openssl::PublicKeyHash(X509_get0_pubkey(certificate)) == openssl::PublicKeyHash(key);
}

// Makes an authority's certificate for `name` and `key`, signed by `signer`. `issuer` is the
// signer's certificate; null for a self-signed one.
absl::StatusOr<openssl::Certificate> AuthorityCertificate(const X509_NAME* name, const PrivateKey& key, X509* issuer,
                                                          const PrivateKey& signer, int64_t now_s) {
  openssl::Certificate made(X509_new());
  X509* certificate = made.get();
  const bool own = issuer == nullptr;
  if (certificate == nullptr || X509_set_version(certificate, X509_VERSION_3) != 1 || !SetSerial(certificate) ||
      !SetDates(certificate, now_s, kAuthorityLifetime_s) || X509_set_pubkey(certificate, key.get()) != 1 ||
      X509_set_subject_name(certificate, name) != 1 || X509_set_issuer_name(certificate, name) != 1 ||
      (!own && X509_set1_notAfter(certificate, X509_get0_notAfter(issuer)) != 1) ||
      !AddExtensions(certificate, own ? certificate : issuer,
                     {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                      {NID_subject_key_identifier, "hash"},
                      {NID_authority_key_identifier, "keyid:always"}}) ||
      !Signed(certificate, signer)) {
    return Failed("cannot create the authority's certificate");
  }
  return made;
}

// Returns the time at which an authority was created.
absl::StatusOr<int64_t> CreateSecondsOf(const X509* root) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t begin_s, openssl::SecondsOf(X509_get0_notBefore(root)));
  return begin_s + kClockMargin_s;
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

absl::StatusOr<Authority> Authority::Create(int64_t now_s) {
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  // The name distinguishes authorities in messages of other tools; Atoll does not read it.
  const Name name(X509_NAME_new());
  if (!SetName(name.get(), absl::StrCat("atoll authority ", openssl::PublicKeyHash(key.get()).Hex().substr(0, 16)))) {
    return Failed("cannot create the authority's name");
  }
  ATOLL_ASSIGN_OR_RETURN(const auto certificate, AuthorityCertificate(name.get(), key, nullptr, key, now_s));
  ATOLL_ASSIGN_OR_RETURN(const std::string pem, openssl::WriteCertificate(certificate.get()));
  ATOLL_ASSIGN_OR_RETURN(const std::string key_pem, key.ToPem());
  return FromPem(pem, key_pem);
}

absl::StatusOr<Authority> Authority::FromPem(const std::string& certificates_pem, const std::string& key_pem) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> all, openssl::ParseCertificates(certificates_pem));
  ATOLL_ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::FromPem(key_pem));
  Authority authority(std::move(key));
  X509* cross = nullptr;
  for (const openssl::Certificate& certificate : all) {
    ATOLL_ASSIGN_OR_RETURN(const std::string pem, openssl::WriteCertificate(certificate.get()));
    authority.certificates_pem_ += pem;
    if (!IsKeyOf(certificate.get(), authority.key_.get())) continue;
    if (!openssl::IsRoot(certificate.get())) {
      cross = certificate.get();
      continue;
    }
    authority.certificate_pem_ = pem;
    authority.fingerprint_ = openssl::Fingerprint(certificate.get());
    ATOLL_ASSIGN_OR_RETURN(authority.create_s_, CreateSecondsOf(certificate.get()));
  }
  if (authority.certificate_pem_.empty()) {
    return absl::InvalidArgumentError("the key is not the key of this authority's certificate");
  }
  authority.succeeds_ = cross != nullptr;
  for (const openssl::Certificate& root : all) {
    if (cross == nullptr || !openssl::IsRoot(root.get()) || !IsSignedBy(cross, X509_get0_pubkey(root.get()))) continue;
    authority.rotated_ = true;
    ATOLL_ASSIGN_OR_RETURN(authority.before_create_s_, CreateSecondsOf(root.get()));
  }
  return authority;
}

absl::StatusOr<Authority> Authority::Rotated(int64_t now_s) const {
  if (rotated_) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was rotated at ", DateText(create_s_), ", and the previous authority is still trusted"));
  }
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate own, openssl::ParseCertificate(certificate_pem_));
  ATOLL_ASSIGN_OR_RETURN(const int64_t end_s, openssl::SecondsOf(X509_get0_notAfter(own.get())));
  if (now_s < create_s_ - kClockMargin_s || now_s > end_s) {
    return absl::FailedPreconditionError(absl::StrCat("it is valid from ", DateText(create_s_), " to ", DateText(end_s),
                                                      ", but this machine's clock shows ", DateText(now_s)));
  }
  ATOLL_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::Generate());
  // Keeps the name: a root of path length 0 lets another key sign only under its own name (RFC
  // 5280, section 6.1.4 (l)).
  const X509_NAME* name = X509_get_subject_name(own.get());
  ATOLL_ASSIGN_OR_RETURN(const auto successor, AuthorityCertificate(name, key, nullptr, key, now_s));
  ATOLL_ASSIGN_OR_RETURN(const auto cross, AuthorityCertificate(name, key, own.get(), key_, now_s));
  ATOLL_ASSIGN_OR_RETURN(const std::string successor_pem, openssl::WriteCertificate(successor.get()));
  ATOLL_ASSIGN_OR_RETURN(const std::string cross_pem, openssl::WriteCertificate(cross.get()));
  ATOLL_ASSIGN_OR_RETURN(const std::string key_pem, key.ToPem());
  return FromPem(absl::StrCat(cross_pem, successor_pem, certificate_pem_), key_pem);
}

Authority Authority::Alone() const {
  Authority alone = *this;
  const auto all = openssl::ParseCertificates(certificates_pem_);
  alone.certificates_pem_.clear();
  for (size_t i = 0; all.ok() && i < all->size(); ++i) {
    if (!IsKeyOf((*all)[i].get(), key_.get())) continue;
    alone.certificates_pem_ += openssl::WriteCertificate((*all)[i].get()).value_or("");
  }
  alone.rotated_ = false;
  return alone;
}

absl::StatusOr<std::string> Authority::Sign(const std::string& request_pem, const Identity& identity, int64_t now_s,
                                            int64_t lifetime_s) const {
  // Refuses identities that ParseIdentityUri would not accept. This also excludes separators of the
  // name list.
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
    return Failed("cannot create a certificate");
  }
  if (!Signed(certificate, key_)) return Failed("cannot sign a certificate");
  return openssl::WriteCertificate(certificate);
}

absl::Status Authority::CheckIssued(const std::string& certificate_pem) const {
  return IssuerOf(certificate_pem, certificates_pem_).status();
}

absl::StatusOr<std::string> IssuerOf(const std::string& certificate_pem, const std::string& authorities_pem) {
  ATOLL_ASSIGN_OR_RETURN(const openssl::Certificate certificate, openssl::ParseCertificate(certificate_pem));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> all, openssl::ParseCertificates(authorities_pem));
  for (const openssl::Certificate& authority : all) {
    if (openssl::IsRoot(authority.get()) && IsSignedBy(certificate.get(), X509_get0_pubkey(authority.get())))
      return openssl::WriteCertificate(authority.get());
  }
  return absl::PermissionDeniedError("the certificate was issued by another authority: enrol with a join token");
}

absl::StatusOr<std::vector<AuthorityFacts>> ReadAuthorities(const std::string& certificates_pem) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> all, openssl::ParseCertificates(certificates_pem));
  std::vector<AuthorityFacts> facts;
  for (const openssl::Certificate& certificate : all) {
    if (!openssl::IsRoot(certificate.get())) continue;
    facts.push_back({.fingerprint = openssl::Fingerprint(certificate.get())});
    ATOLL_ASSIGN_OR_RETURN(facts.back().not_after_s, openssl::SecondsOf(X509_get0_notAfter(certificate.get())));
  }
  if (facts.empty()) return absl::InvalidArgumentError("there is no authority's certificate in the PEM text");
  return facts;
}

absl::StatusOr<std::string> SucceedingAuthorities(const std::string& held, const std::string& offered) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> old, openssl::ParseCertificates(held));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> all, openssl::ParseCertificates(offered));
  // True for a trusted authority's certificate, and for a certificate signed by its key.
  const auto is_held = [&old](X509* certificate) {
    return std::any_of(old.begin(), old.end(), [certificate](const openssl::Certificate& root) {
      return openssl::IsRoot(root.get()) && IsSignedBy(certificate, X509_get0_pubkey(root.get()));
    });
  };
  const auto is_vouched_for = [&all, &is_held](X509* certificate) {
    return std::any_of(all.begin(), all.end(), [&](const openssl::Certificate& other) {
      return X509_check_ca(other.get()) == 1 && is_held(other.get()) &&
             IsKeyOf(other.get(), X509_get0_pubkey(certificate));
    });
  };
  std::string out;
  for (const openssl::Certificate& certificate : all) {
    if (!openssl::IsRoot(certificate.get()) || !is_vouched_for(certificate.get())) continue;
    ATOLL_ASSIGN_OR_RETURN(const std::string pem, openssl::WriteCertificate(certificate.get()));
    out += pem;
  }
  if (!out.empty()) return out;
  return absl::PermissionDeniedError("no offered authority is signed by a trusted authority: enrol with a join token");
}

}  // namespace atl
