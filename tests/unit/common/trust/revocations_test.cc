// SPDX-License-Identifier: Apache-2.0
// Which certificates a revocation ends, and which it does not.
#include "common/trust/revocations.h"

#include <gtest/gtest.h>

#include "common/trust/authority.h"
#include "common/trust/secret_files.h"

namespace atl {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;

CertificateFacts Issued(const Identity& identity, int64_t issue_s) {
  return {.identity = identity, .not_before_s = issue_s - kClockMargin_s, .not_after_s = issue_s + kUserLifetime_s};
}

std::string Why(const absl::Status& refused) {
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  return std::string(refused.message());
}

TEST(RevocationsTest, IssueTimeIsThatOfTheSignature) {
  const Authority authority = *Authority::Create(kNow_s);
  const IdentityFile identity = *IssueIdentity(authority, {Role::kAdmin, "admin", ""}, kNow_s + 5);
  EXPECT_EQ(IssueTime(*ReadCertificate(identity.certificate_pem)), kNow_s + 5);
}

// S7.
TEST(RevocationsTest, ANameEndsWhatItHadWhateverTheRoleAndToken) {
  Revocations revoked;
  revoked.RevokeName("ops", kNow_s);
  for (const Role role : {Role::kAdmin, Role::kOperator, Role::kViewer, Role::kWorker}) {
    for (const char* token : {"", "0123456789abcdef"}) {
      const Identity identity{role, "ops", token};
      EXPECT_NE(Why(revoked.Check(Issued(identity, kNow_s - 86'400))).find("was revoked at 2027-01-15 08:00:00 UTC"),
                std::string::npos);
      EXPECT_FALSE(revoked.Check(Issued(identity, kNow_s)).ok()) << "in the same second";
      EXPECT_TRUE(revoked.Check(Issued(identity, kNow_s + 1)).ok()) << "the name is not lost";
    }
  }
  EXPECT_TRUE(revoked.Check(Issued({Role::kAdmin, "ops-2", ""}, kNow_s - 1)).ok());
  EXPECT_EQ(revoked.RevokedAt("ops"), kNow_s);
  EXPECT_EQ(revoked.RevokedAt("ops-2"), std::nullopt);
}

TEST(RevocationsTest, TheLaterRevocationOfANameCounts) {
  Revocations revoked;
  revoked.RevokeName("ops", kNow_s);
  revoked.RevokeName("ops", kNow_s + 10);
  revoked.RevokeName("ops", kNow_s - 10);
  EXPECT_FALSE(revoked.Check(Issued({Role::kAdmin, "ops", ""}, kNow_s + 10)).ok());
  EXPECT_TRUE(revoked.Check(Issued({Role::kAdmin, "ops", ""}, kNow_s + 11)).ok());
}

TEST(RevocationsTest, ATokenEndsWhatCameByItForGood) {
  Revocations revoked;
  revoked.RevokeToken("0123456789abcdef");
  const Identity by_token{Role::kWorker, "a", "0123456789abcdef"};
  EXPECT_NE(Why(revoked.Check(Issued(by_token, kNow_s))).find("join token 0123456789abcdef, which was revoked"),
            std::string::npos);
  EXPECT_FALSE(revoked.Check(Issued(by_token, kNow_s + 86'400)).ok());
  EXPECT_TRUE(revoked.Check(Issued({Role::kWorker, "a", ""}, kNow_s)).ok());
  EXPECT_TRUE(revoked.Check(Issued({Role::kWorker, "a", "fedcba9876543210"}, kNow_s)).ok());
}

}  // namespace
}  // namespace atl
