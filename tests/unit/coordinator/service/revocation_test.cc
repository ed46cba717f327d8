// SPDX-License-Identifier: Apache-2.0
// Revoked identities are refused, by token and by name, at calls, renewals and enrolments, and
// after restarts.
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_format.h"
#include "tests/unit/coordinator/service/enrollment_fixture.h"

namespace atl {
namespace {

using RevocationTest = EnrollmentTest;

TEST_F(RevocationTest, ARevokedTokenEndsEnrolmentRenewalAndCalls) {
  const JoinToken token = Token(5);
  const PrivateKey key = *PrivateKey::Generate();
  const std::string certificate = Enroll(With(token, "cpu-1", key))->certificate();
  const CertificateFacts worker = *ReadCertificate(certificate);
  EXPECT_TRUE(guard_.Check("/atoll.v1.WorkerService/Control", worker).ok());
  EXPECT_EQ(RevokeToken("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(RevokeToken(token.id)->token().revoked());
  EXPECT_EQ(ended_, 1) << "connections of before";
  EXPECT_NE(Why(Enroll(With(token, "cpu-2"))).find("was revoked"), std::string::npos);
  EXPECT_NE(Why(Enroll(Renewal(certificate, key))).find("was revoked"), std::string::npos);
  EXPECT_FALSE(guard_.Check("/atoll.v1.WorkerService/Control", worker).ok());
  CallGuard fresh(trail_, clock_);
  Enrollment again(
      {[this] { return authority_; }, *ledger_, executor_, clock_, trail_, fresh, [] {}, [](const absl::Status&) {}});
  again.Load(*ledger_->Tokens(), *ledger_->Revocations());
  EXPECT_FALSE(fresh.Check("/atoll.v1.WorkerService/Control", worker).ok()) << "a restart forgot the revocation";
}

// S7: for a worker that enrolled, or that got its identity from `atoll ca issue`: no call, renewal
// or enrolment with its earlier identity.
TEST_F(RevocationTest, ARevokedNameEndsCallsRenewalsAndEnrolments) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token(5);
  const v1::EnrollRequest enrol = With(token, "cpu-1", key);
  const std::string certificate = Enroll(enrol)->certificate();
  const std::string issued =
      *authority_.Sign(*MakeSigningRequest(key), {Role::kWorker, "cpu-1", ""}, NowSeconds(), kWorkerLifetime_s);
  const auto revoked = Revoke("cpu-1");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_EQ(revoked->revocation().revoked_by(), "admin/ops");
  EXPECT_EQ(revoked->revocation().revoke_time().seconds(), NowSeconds());
  EXPECT_EQ(ended_, 1) << "connections of before";
  for (int life = 0; life < 2; ++life) {
    for (const std::string& held : {certificate, issued}) {
      EXPECT_NE(Why(Enroll(Renewal(held, key))).find("'cpu-1' was revoked at "), std::string::npos);
      EXPECT_FALSE(guard_.Check("/atoll.v1.WorkerService/Control", *ReadCertificate(held)).ok());
    }
    EXPECT_NE(Why(Enroll(enrol)).find("was created before: ask for a new one"), std::string::npos)
        << "the same key again";
    EXPECT_NE(Why(Enroll(With(token, "cpu-1"))).find("was created before"), std::string::npos) << "a use that is left";
    EXPECT_TRUE(Enroll(With(token, absl::StrCat("cpu-2", life))).ok()) << "others are not disturbed";
    clock_.Advance(Seconds(60));
    Restart();
  }
}

// Also in the same second, as when a program revokes a name and immediately makes a token for its
// replacement.
TEST_F(RevocationTest, ARevokedNameComesBackByATokenMadeSince) {
  const JoinToken old = Token(5);
  ASSERT_TRUE(Enroll(With(old, "cpu-1")).ok());
  ASSERT_TRUE(Revoke("cpu-1").ok());
  const PrivateKey key = *PrivateKey::Generate();
  for (const std::string& token_name : {std::string(), std::string("cpu-1")}) {
    const auto back = Enroll(With(Token(1, "worker", token_name), "cpu-1", key));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(guard_.Check("/atoll.v1.WorkerService/Control", *ReadCertificate(back->certificate())).ok());
    EXPECT_TRUE(Enroll(Renewal(back->certificate(), key)).ok());
    ASSERT_TRUE(Revoke("cpu-1").ok()) << "and can be revoked again";
    EXPECT_FALSE(Enroll(Renewal(back->certificate(), key)).ok());
  }
}

TEST_F(RevocationTest, AdminCannotRevokeItself) {
  EXPECT_EQ(Revoke("ops").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Revoke("No name").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Revoke("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(disk_.revocations.empty());
  disk_error_ = absl::ResourceExhaustedError("disk full");
  EXPECT_FALSE(Revoke("cpu-1").ok());
  EXPECT_EQ(fatal_.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ended_, 0);
}

// A wall clock that was set back must not weaken an earlier revocation.
TEST_F(RevocationTest, ALaterRevocationOfANameIsNeverOfAnEarlierTime) {
  enrollment_->Load({}, {{.name = "cpu-1", .revoke_s = NowSeconds() + 3600, .by = "admin/ops"}});
  EXPECT_GT(Revoke("cpu-1")->revocation().revoke_time().seconds(), NowSeconds() + 3600);
}

TEST_F(RevocationTest, RevocationsAreListedAndMakeRoomWhenNothingOfTheirTimeIsLeft) {
  std::vector<RevocationRecord> many(Enrollment::kRevocations);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = {
        .name = absl::StrFormat("name-%06d", i), .revoke_s = NowSeconds(), .by = "admin/" + std::string(60, 'o')};
  enrollment_->Load({}, many);
  size_t listed = 0;
  v1::ListRevocationsRequest request;
  do {
    const auto page = Ask(&Enrollment::ListRevocations, request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), limits::kMessageBytes);
    for (const v1::Revocation& revocation : page->revocations()) EXPECT_EQ(revocation.name(), many[listed++].name);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && listed < many.size());
  EXPECT_EQ(listed, many.size());
  EXPECT_EQ(Revoke("one-more").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Revoke("name-000000").ok()) << "its place is there";
  clock_.Advance(Seconds(kUserLifetime_s + kClockMargin_s));
  EXPECT_FALSE(Revoke("one-more").ok());
  clock_.Advance(Seconds(1));
  EXPECT_TRUE(Revoke("one-more").ok());
}

}  // namespace
}  // namespace atl
