// SPDX-License-Identifier: Apache-2.0
// The authority and certificate of a running coordinator: renewal, rotation, retirement, and
// refused changes.
#include "coordinator/service/own_trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/log.h"
#include "common/base/wall_time.h"
#include "common/trust/secret_files.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using testing::HasSubstr;

class OwnTrustTest : public testing::Test {
 protected:
  OwnTrustTest() { EXPECT_TRUE(CreateAuthority(files_.authority_directory, NowSeconds()).ok()); }

  int64_t NowSeconds() const { return WallSeconds(clock_); }
  std::unique_ptr<OwnTrust> Open() {
    auto trust = OwnTrust::Open(files_, clock_, log_);
    EXPECT_TRUE(trust.ok()) << trust.status();
    return *std::move(trust);
  }
  IdentityFile Own() const { return *ReadIdentityFile(files_.identity); }
  // The authority that a second coordinator would start with.
  Authority OnDisk() const { return *LoadAuthority(files_.authority_directory); }
  Authority Rotate() { return *RotateAuthority(files_.authority_directory, NowSeconds()); }

  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  const TempDir directory_;
  const OwnTrustFiles files_ = {.authority_directory = directory_ / "trust",
                                .identity = directory_ / "coordinator.pem"};
};

TEST_F(OwnTrustTest, TheCertificateIsRenewedAtHalf) {
  const auto trust = Open();
  const std::string first = Own().certificate_pem;
  trust->Look();
  EXPECT_EQ(Own().certificate_pem, first);
  clock_.Advance(Seconds(kCoordinatorLifetime_s / 2));
  trust->Look();
  const std::string second = Own().certificate_pem;
  EXPECT_NE(second, first);
  EXPECT_TRUE(OnDisk().CheckIssued(second).ok());
  EXPECT_EQ(Own().authority_pem, OnDisk().certificates_pem());
}

// A copy of the state directory without its file modes must not end the trust of enrolled workers.
TEST_F(OwnTrustTest, ACertificateThatCannotBeReadIsNotReplaced) {
  Open();
  const std::string before = Own().certificate_pem;
  std::filesystem::permissions(files_.identity, std::filesystem::perms(0644));
  const auto opened = OwnTrust::Open(files_, clock_, log_);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kPermissionDenied) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr(files_.identity));
  std::filesystem::permissions(files_.identity, std::filesystem::perms(0600));
  EXPECT_EQ(Own().certificate_pem, before);
}

TEST_F(OwnTrustTest, ARotatedAuthorityIsShownAtOnceAndSignsFromTheNextLookOn) {
  const auto trust = Open();
  const Authority before = trust->authority(), rotated = Rotate();
  trust->Look();
  EXPECT_TRUE(rotated.Alone().CheckIssued(Own().certificate_pem).ok()) << "its own is of the new one";
  EXPECT_EQ(Own().authority_pem, rotated.certificates_pem());
  EXPECT_EQ(trust->authority().fingerprint(), before.fingerprint())
      << "nobody has a certificate that the listeners may not know yet";
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), rotated.fingerprint());
  EXPECT_EQ(trust->authority().certificates_pem(), rotated.certificates_pem());
  const std::string issued = Own().certificate_pem;
  trust->Look();
  EXPECT_EQ(Own().certificate_pem, issued) << "once";

  const Authority retired = *RetireAuthority(files_.authority_directory);
  trust->Look();
  EXPECT_EQ(Own().authority_pem, retired.certificates_pem());
  EXPECT_FALSE(trust->authority().is_rotated()) << "at once";
}

// A stolen key: nothing signed by it is accepted, whether the coordinator was running or not.
TEST_F(OwnTrustTest, RotationAndRetirementBetweenChecksIsAdopted) {
  auto trust = Open();
  const Authority before = trust->authority();
  for (const bool running : {true, false}) {
    ASSERT_TRUE(RotateAuthority(files_.authority_directory, NowSeconds(), /*retire=*/true).ok());
    if (!running) trust = Open();
    trust->Look();
    trust->Look();
    EXPECT_EQ(trust->authority().certificates_pem(), OnDisk().certificates_pem());
    EXPECT_TRUE(OnDisk().CheckIssued(Own().certificate_pem).ok());
    EXPECT_FALSE(trust->authority()
                     .CheckIssued(*before.Sign(*MakeSigningRequest(*PrivateKey::Generate()), {Role::kWorker, "w", ""},
                                               NowSeconds(), 60))
                     .ok());
  }
}

// The directory from before the rotation, from an old copy: workers trust only the successor.
TEST_F(OwnTrustTest, AnOlderAuthorityIsAnother) {
  const auto trust = Open();
  const Authority before = trust->authority(), rotated = Rotate();
  trust->Look();
  trust->Look();
  ASSERT_TRUE(WriteSecretFile(AuthorityCertificatePath(files_.authority_directory), before.certificates_pem()).ok());
  ASSERT_TRUE(WriteSecretFile(AuthorityKeyPath(files_.authority_directory), *before.key_pem()).ok());
  trust->Look();
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), rotated.fingerprint());
  EXPECT_TRUE(rotated.Alone().CheckIssued(Own().certificate_pem).ok());
  EXPECT_EQ(OwnTrust::Open(files_, clock_, log_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OwnTrustTest, RotationWhileDownIsAdoptedAtTheStart) {
  Open();
  const Authority rotated = Rotate();
  EXPECT_EQ(Open()->authority().fingerprint(), rotated.fingerprint());
  EXPECT_TRUE(rotated.Alone().CheckIssued(Own().certificate_pem).ok());
}

// As after a crash during a rotation: the certificates of the successor, and the old key.
TEST_F(OwnTrustTest, AHalfRotationChangesNothing) {
  const auto trust = Open();
  const Authority before = trust->authority(), after = Rotate();
  ASSERT_TRUE(WriteSecretFile(AuthorityKeyPath(files_.authority_directory), *before.key_pem()).ok());
  trust->Look();
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), before.fingerprint());
  EXPECT_TRUE(before.CheckIssued(Own().certificate_pem).ok());
  EXPECT_EQ(Open()->authority().fingerprint(), before.fingerprint());
  // A check between the two writes of a rotation: the rotation takes effect once the key is
  // written.
  ASSERT_TRUE(WriteSecretFile(AuthorityKeyPath(files_.authority_directory), *after.key_pem()).ok());
  trust->Look();
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), after.fingerprint());
  EXPECT_TRUE(after.Alone().CheckIssued(Own().certificate_pem).ok());
}

TEST_F(OwnTrustTest, AnotherAuthorityIsRefusedAndTheOneThatWasGoesOn) {
  const auto trust = Open();
  const Authority before = trust->authority();
  std::filesystem::remove_all(files_.authority_directory);
  ASSERT_TRUE(CreateAuthority(files_.authority_directory, NowSeconds()).ok());
  clock_.Advance(Seconds(kCoordinatorLifetime_s / 2));
  trust->Look();
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), before.fingerprint());
  EXPECT_TRUE(before.CheckIssued(Own().certificate_pem).ok());
  EXPECT_EQ(Own().authority_pem, before.certificates_pem());
  EXPECT_LT(NowSeconds(), RenewAt(*ReadCertificate(Own().certificate_pem))) << "it is renewed all the same";
  const absl::Status refused = OwnTrust::Open(files_, clock_, log_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has another authority than " + files_.identity));
}

TEST_F(OwnTrustTest, AnAuthorityThatIsGoneLeavesTheOneThatWas) {
  const auto trust = Open();
  const Authority before = trust->authority();
  std::filesystem::remove_all(files_.authority_directory);
  clock_.Advance(Seconds(kCoordinatorLifetime_s / 2));
  trust->Look();
  EXPECT_EQ(trust->authority().fingerprint(), before.fingerprint());
  EXPECT_LT(NowSeconds(), RenewAt(*ReadCertificate(Own().certificate_pem)));
}

}  // namespace
}  // namespace atl
