// SPDX-License-Identifier: Apache-2.0
// Keys, certificate requests, authorities and the fields of a certificate (S40).
#include "common/trust/certificate.h"

#include <gtest/gtest.h>

#include "common/trust/authority.h"
#include "tests/unit/common/trust/foreign_keys.h"

namespace atl {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;
const Identity kWorker = {Role::kWorker, "cpu-1", "0123456789abcdef"};

std::string Request(const PrivateKey& key) { return *MakeSigningRequest(key); }

TEST(IdentityTest, UriRoundTripsAndNothingElseIsRead) {
  EXPECT_EQ(IdentityUri(kWorker), "atoll://worker/cpu-1/0123456789abcdef");
  EXPECT_EQ(*ParseIdentityUri(IdentityUri(kWorker)), kWorker);
  EXPECT_EQ(*ParseIdentityUri("atoll://admin/eve"), (Identity{Role::kAdmin, "eve", ""}));
  for (const char* wrong : {"", "atoll://", "atoll://worker", "atoll://worker/", "atoll://owner/x", "http://worker/x",
                            "atoll://worker/X", "atoll://worker/a b", "atoll://worker/a/", "atoll://worker/a/123",
                            "atoll://worker/a/0123456789abcdef/", "atoll://worker/a@b"}) {
    EXPECT_EQ(ParseIdentityUri(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_FALSE(ParseIdentityUri("atoll://worker/-a").ok());
}

// S16, S17.
TEST(IdentityTest, PeersSpeakOnlyForThemselves) {
  const std::string address = "ipv4:10.0.0.7:40112";
  const std::string peer = PeerText(kWorker, address);
  EXPECT_EQ(IdentityOfPeer(peer), kWorker);
  EXPECT_EQ(IdentityOfPeer(address), std::nullopt);
  EXPECT_TRUE(CheckSpeaksFor(peer, "cpu-1").ok());
  EXPECT_TRUE(CheckSpeaksFor(address, "cpu-1").ok()) << "without certificates there is nobody to compare with";
  const absl::Status other = CheckSpeaksFor(peer, "cpu-2");
  EXPECT_EQ(other.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(other.message()).find("'cpu-1'"), std::string::npos) << other;
  EXPECT_FALSE(CheckSpeaksFor(PeerText(Identity{Role::kAdmin, "cpu-1", ""}, address), "cpu-1").ok());
}

TEST(CertificateTest, HasNameAndValidity) {
  const Authority authority = *Authority::Create(kNow_s);
  const PrivateKey key = *PrivateKey::Generate();
  const auto pem = authority.Sign(Request(key), kWorker, kNow_s, kWorkerLifetime_s);
  ASSERT_TRUE(pem.ok()) << pem.status();
  const auto facts = ReadCertificate(*pem);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->identity, kWorker);
  EXPECT_EQ(facts->not_before_s, kNow_s - kClockMargin_s);
  EXPECT_EQ(facts->not_after_s, kNow_s + kWorkerLifetime_s);
  EXPECT_EQ(facts->public_key, *CheckSigningRequest(Request(key)));
  EXPECT_TRUE(authority.CheckIssued(*pem).ok());
  EXPECT_GT(RenewAt(*facts), kNow_s);
  EXPECT_LT(RenewAt(*facts), kNow_s + kWorkerLifetime_s);
}

// S5, S12.
TEST(CertificateTest, TimeErrorsHaveBothDates) {
  const Authority authority = *Authority::Create(kNow_s);
  const auto pem = authority.Sign(Request(*PrivateKey::Generate()), kWorker, kNow_s, 3600);
  const CertificateFacts facts = *ReadCertificate(*pem);
  EXPECT_TRUE(CheckTimes(facts, kNow_s).ok());
  const absl::Status late = CheckTimes(facts, kNow_s + 3601), early = CheckTimes(facts, kNow_s - 3600);
  EXPECT_NE(std::string(late.message()).find("expired at 2027-01-15 09:00:00 UTC"), std::string::npos) << late;
  EXPECT_NE(std::string(early.message()).find("set the clock right"), std::string::npos) << early;
}

// S12: ten minutes suffice, and the error names both clocks.
TEST(CertificateTest, ClockTenMinutesOffIsReportedWithBothTimes) {
  constexpr int64_t kTenMinutes = 600;
  const Authority authority = *Authority::Create(kNow_s);
  const auto pem = authority.Sign(Request(*PrivateKey::Generate()), kWorker, kNow_s, 3600);
  const CertificateFacts facts = *ReadCertificate(*pem);
  const absl::Status early = CheckTimes(facts, facts.not_before_s - kTenMinutes);
  const absl::Status late = CheckTimes(facts, facts.not_after_s + kTenMinutes);
  for (const absl::Status& status : {early, late}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(std::string(status.message()).find("set the clock right"), std::string::npos) << status;
  }
  const auto tells = [](const absl::Status& status, int64_t at_s) {
    return std::string(status.message()).find(DateText(at_s)) != std::string::npos;
  };
  EXPECT_TRUE(tells(early, facts.not_before_s) && tells(early, facts.not_before_s - kTenMinutes)) << early;
  EXPECT_TRUE(tells(late, facts.not_after_s) && tells(late, facts.not_after_s + kTenMinutes)) << late;
}

TEST(CertificateTest, AnotherAuthorityIsAnother) {
  const Authority one = *Authority::Create(kNow_s), two = *Authority::Create(kNow_s);
  const auto pem = one.Sign(Request(*PrivateKey::Generate()), kWorker, kNow_s, 3600);
  EXPECT_EQ(two.CheckIssued(*pem).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(one.fingerprint(), two.fingerprint());
  EXPECT_EQ(Authority::FromPem(one.certificate_pem(), *two.key_pem()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Authority::FromPem(one.certificate_pem(), *one.key_pem())->fingerprint(), one.fingerprint());
}

TEST(CertificateTest, BrokenTextsAreRefused) {
  const Authority authority = *Authority::Create(kNow_s);
  const std::string request = Request(*PrivateKey::Generate());
  std::string altered = request;
  altered[request.size() / 2] = altered[request.size() / 2] == 'A' ? 'B' : 'A';
  for (const std::string& wrong : {std::string(), std::string("hello"), request.substr(0, request.size() / 2), altered,
                                   std::string(kPemLimitBytes + 1, 'x'), authority.certificate_pem()}) {
    EXPECT_EQ(authority.Sign(wrong, kWorker, kNow_s, 60).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(authority.Sign(request, {Role::kWorker, "a,DNS:server.atoll", ""}, kNow_s, 60).ok());
  EXPECT_FALSE(ReadCertificate(authority.certificate_pem()).ok()) << "an authority is nobody";
  EXPECT_FALSE(PrivateKey::FromPem(request).ok());
}

// OpenSSL takes a third of a second to decode a crafted key with parameters of its own (S40).
TEST(CertificateTest, OtherKeysAreRefusedBeforeOpenSslDecodesThem) {
  using openssl::KeyKind;
  for (const KeyKind kind : {KeyKind::kNamed, KeyKind::kExplicit, KeyKind::kCompressed, KeyKind::kP384}) {
    const openssl::Key key = openssl::MakeKey(kind);
    const std::string certificate = *openssl::WriteCertificate(openssl::MakeCertificate(key).get());
    EXPECT_EQ(openssl::ParseCertificate(certificate).ok(), kind == KeyKind::kNamed) << static_cast<int>(kind);
    EXPECT_EQ(openssl::ParseCertificates(certificate + certificate).ok(), kind == KeyKind::kNamed);
    EXPECT_EQ(CheckSigningRequest(openssl::MakeRequest(key)).ok(), kind == KeyKind::kNamed);
  }
}

TEST(CertificateTest, AnEncodingThatIsNoDerHasNoKey) {
  const openssl::Certificate certificate = openssl::MakeCertificate(openssl::MakeKey(openssl::KeyKind::kNamed));
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate.get(), &bytes);
  const std::vector<uint8_t> der(bytes, bytes + size);
  OPENSSL_free(bytes);
  ASSERT_TRUE(openssl::HasP256Key(der, openssl::Signed::kCertificate));
  EXPECT_FALSE(openssl::HasP256Key(der, openssl::Signed::kRequest));
  for (size_t cut = 0; cut < der.size(); ++cut)
    EXPECT_FALSE(openssl::HasP256Key(std::span(der).first(cut), openssl::Signed::kCertificate)) << cut;
  std::vector<uint8_t> indefinite = der;
  indefinite[1] = 0x80;
  EXPECT_FALSE(openssl::HasP256Key(indefinite, openssl::Signed::kCertificate));
}

// OpenSSL would ask the terminal for the passphrase, and wait (S40).
TEST(CertificateTest, ATextMarkedAsEncryptedIsRefused) {
  const openssl::Key key = openssl::MakeKey(openssl::KeyKind::kNamed);
  for (std::string pem : {*openssl::WriteCertificate(openssl::MakeCertificate(key).get()), openssl::MakeRequest(key)}) {
    pem.insert(pem.find('\n') + 1,
               "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n\n");
    EXPECT_FALSE(openssl::ParseCertificate(pem).ok());
    EXPECT_FALSE(openssl::ParseCertificates(pem).ok());
    EXPECT_FALSE(CheckSigningRequest(pem).ok());
  }
}

TEST(CertificateTest, AProtectedKeyOpensByItsPassphraseAlone) {
  const PrivateKey key = *PrivateKey::Generate();
  const std::string plain = *key.ToPem(), sealed = *key.ToPem("correct horse");
  EXPECT_FALSE(IsProtected(plain));
  EXPECT_TRUE(IsProtected(sealed));
  EXPECT_EQ(sealed.rfind("-----BEGIN ENCRYPTED PRIVATE KEY-----", 0), 0u) << sealed;
  EXPECT_NE(sealed, *key.ToPem("correct horse")) << "a salt of its own";
  EXPECT_EQ(*PrivateKey::FromPem(sealed, "correct horse")->ToPem(), plain);
  EXPECT_EQ(*PrivateKey::FromPem(plain, "never asked for")->ToPem(), plain);
  EXPECT_EQ(PrivateKey::FromPem(sealed).status().code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& wrong : {std::string("correct horst"), std::string(2000, 'x')})
    EXPECT_EQ(PrivateKey::FromPem(sealed, wrong).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(CertificateTest, KeysRoundTrip) {
  const PrivateKey key = *PrivateKey::Generate();
  const auto again = PrivateKey::FromPem(*key.ToPem());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*CheckSigningRequest(Request(key)), *CheckSigningRequest(Request(*again)));
}

}  // namespace
}  // namespace atl
