// SPDX-License-Identifier: Apache-2.0
// Rotation of an authority: which certificates are trusted during and after it, and that a stranger
// cannot add trust.
#include "common/trust/authority.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace atl {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;
const Identity kWorker = {Role::kWorker, "cpu-1", "0123456789abcdef"};

std::string Issued(const Authority& authority, const PrivateKey& key) {
  return *authority.Sign(*MakeSigningRequest(key), kWorker, kNow_s, kWorkerLifetime_s);
}
std::string Issued(const Authority& authority) { return Issued(authority, *PrivateKey::Generate()); }

std::vector<Sha256> Trusted(const Authority& authority) {
  std::vector<Sha256> out;
  const auto read = ReadAuthorities(authority.certificates_pem());
  for (const AuthorityFacts& facts : *read) out.push_back(facts.fingerprint);
  return out;
}

TEST(AuthorityTest, RotatedAuthoritySignsAndThePreviousStaysTrusted) {
  const Authority before = *Authority::Create(kNow_s), stranger = *Authority::Create(kNow_s);
  EXPECT_FALSE(before.is_rotated());
  EXPECT_EQ(before.certificates_pem(), before.certificate_pem());
  EXPECT_EQ(before.retired_until_s(), 0);
  const Authority rotated = *before.Rotated(kNow_s + 60);
  EXPECT_TRUE(rotated.is_rotated());
  EXPECT_EQ(rotated.create_s(), kNow_s + 60);
  EXPECT_EQ(rotated.retired_until_s(), kNow_s) << "nothing was made before the first one";
  EXPECT_EQ(Trusted(rotated), (std::vector{rotated.fingerprint(), before.fingerprint()}));
  const std::string old = Issued(before), fresh = Issued(rotated);
  EXPECT_FALSE(before.CheckIssued(fresh).ok()) << "the new key signs";
  EXPECT_TRUE(rotated.CheckIssued(fresh).ok());
  EXPECT_TRUE(rotated.CheckIssued(old).ok());
  EXPECT_EQ(rotated.CheckIssued(Issued(stranger)).code(), absl::StatusCode::kPermissionDenied);
  const Authority alone = rotated.Alone();
  EXPECT_FALSE(alone.is_rotated());
  EXPECT_EQ(alone.retired_until_s(), kNow_s + 60);
  EXPECT_EQ(alone.fingerprint(), rotated.fingerprint());
  EXPECT_EQ(Trusted(alone), std::vector{rotated.fingerprint()});
  EXPECT_TRUE(alone.CheckIssued(fresh).ok());
  EXPECT_EQ(alone.CheckIssued(old).code(), absl::StatusCode::kPermissionDenied);
}

TEST(AuthorityTest, UnretiredAuthorityIsNotRotatedAgain) {
  const Authority first = *Authority::Create(kNow_s), second = *first.Rotated(kNow_s);
  const absl::Status refused = second.Rotated(kNow_s + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(refused.message()).find("it was rotated at 2027-01-15 08:00:00 UTC"), std::string::npos)
      << refused;
  const Authority third = *second.Alone().Rotated(kNow_s + 1);
  EXPECT_EQ(Trusted(third), (std::vector{third.fingerprint(), second.fingerprint()}));
  EXPECT_EQ(third.retired_until_s(), second.create_s()) << "what the first one made does not come back";
  EXPECT_EQ(third.Alone().retired_until_s(), kNow_s + 1);
}

TEST(AuthorityTest, IsNotRotatedByAClockThatIsWrong) {
  const Authority authority = *Authority::Create(kNow_s);
  for (const int64_t wrong_s : {kNow_s - 86'400, kNow_s + kAuthorityLifetime_s + 60}) {
    const absl::Status refused = authority.Rotated(wrong_s).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(refused.message()).find("this machine's clock shows " + DateText(wrong_s)), std::string::npos)
        << refused;
  }
}

TEST(AuthorityTest, IsReadBackAsItWas) {
  const Authority before = *Authority::Create(kNow_s), rotated = *before.Rotated(kNow_s);
  for (const Authority& authority : {before, rotated, rotated.Alone()}) {
    const auto back = Authority::FromPem(authority.certificates_pem(), *authority.key_pem());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->certificates_pem(), authority.certificates_pem());
    EXPECT_EQ(back->certificate_pem(), authority.certificate_pem());
    EXPECT_EQ(back->fingerprint(), authority.fingerprint());
    EXPECT_EQ(back->is_rotated(), authority.is_rotated());
    EXPECT_EQ(back->retired_until_s(), authority.retired_until_s());
  }
  // The certificates of the successor with the previous key, as after a crash between the two
  // files.
  const auto half = Authority::FromPem(rotated.certificates_pem(), *before.key_pem());
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->fingerprint(), before.fingerprint());
  EXPECT_TRUE(half->Rotated(kNow_s).ok());
  const Authority stranger = *Authority::Create(kNow_s);
  EXPECT_EQ(Authority::FromPem(rotated.certificates_pem(), *stranger.key_pem()).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::string broken = rotated.certificates_pem();
  broken[broken.rfind("-----BEGIN") + 60] = '!';
  EXPECT_EQ(Authority::FromPem(broken, *rotated.key_pem()).status().code(), absl::StatusCode::kInvalidArgument);
}

// S8.
TEST(AuthorityTest, ANewOneIsTakenOnlyFromThoseThatAreTrusted) {
  const Authority before = *Authority::Create(kNow_s), rotated = *before.Rotated(kNow_s);
  const Authority stranger = *Authority::Create(kNow_s);
  const std::string both = rotated.certificate_pem() + before.certificate_pem();
  EXPECT_EQ(*SucceedingAuthorities(before.certificates_pem(), rotated.certificates_pem()), both);
  EXPECT_EQ(*SucceedingAuthorities(both, rotated.Alone().certificates_pem()), rotated.certificate_pem());
  EXPECT_EQ(*SucceedingAuthorities(before.certificate_pem(), rotated.Alone().certificates_pem()),
            rotated.certificate_pem())
      << "what the one before has signed for it stays";
  EXPECT_EQ(*SucceedingAuthorities(before.certificates_pem(), before.certificates_pem()), before.certificate_pem());
  EXPECT_EQ(*SucceedingAuthorities(rotated.certificate_pem(), rotated.certificates_pem()), rotated.certificate_pem())
      << "who trusts the new one only has no use for the one before";
  EXPECT_EQ(*SucceedingAuthorities(before.certificates_pem(), rotated.certificates_pem() + stranger.certificate_pem()),
            both);
  for (const std::string& offered : {stranger.certificates_pem(), stranger.Rotated(kNow_s)->certificates_pem(),
                                     rotated.certificate_pem(), Issued(before)}) {
    EXPECT_EQ(SucceedingAuthorities(before.certificates_pem(), offered).status().code(),
              absl::StatusCode::kPermissionDenied)
        << offered;
  }
  for (const std::string& nothing : {std::string(), std::string("x")}) {
    EXPECT_EQ(SucceedingAuthorities(before.certificates_pem(), nothing).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(AuthorityTest, TheIssuerIsTheOneWhoseKeySigned) {
  const Authority before = *Authority::Create(kNow_s), rotated = *before.Rotated(kNow_s);
  EXPECT_EQ(*IssuerOf(Issued(before), rotated.certificates_pem()), before.certificate_pem());
  EXPECT_EQ(*IssuerOf(Issued(rotated), rotated.certificates_pem()), rotated.certificate_pem());
  EXPECT_EQ(IssuerOf(Issued(before), rotated.Alone().certificates_pem()).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// A self-signed certificate for signing others.
std::string RootOf(const PrivateKey& key) {
  X509* root = X509_new();
  X509_set_version(root, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(root), 1);
  ASN1_TIME_set(X509_getm_notBefore(root), kNow_s);
  ASN1_TIME_set(X509_getm_notAfter(root), kNow_s + 86'400);
  X509_set_pubkey(root, key.get());
  X509_EXTENSION* ca = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
  X509_add_ext(root, ca, -1);
  X509_EXTENSION_free(ca);
  X509_sign(root, key.get(), EVP_sha256());
  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(out, root);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(out);
  X509_free(root);
  return pem;
}

// The authority signed a certificate for that key, but not for signing others.
TEST(AuthorityTest, AWorkersKeyMakesNoAuthority) {
  const Authority authority = *Authority::Create(kNow_s);
  const PrivateKey key = *PrivateKey::Generate();
  const std::string root = RootOf(key);
  ASSERT_EQ(ReadAuthorities(root)->size(), 1u);
  EXPECT_EQ(SucceedingAuthorities(authority.certificates_pem(), Issued(authority, key) + root).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace atl
