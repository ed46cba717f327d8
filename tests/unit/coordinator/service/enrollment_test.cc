// SPDX-License-Identifier: Apache-2.0
// Tokens and certificates are exchanged for certificates, at most once; everything else is refused
// with a clear error.
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_format.h"
#include "tests/unit/coordinator/service/enrollment_fixture.h"

namespace atl {
namespace {

TEST_F(EnrollmentTest, ATokenBecomesACertificateOnce) {
  const JoinToken token = Token();
  EXPECT_EQ(token.authority, authority_.fingerprint());
  const auto response = Enroll(With(token, "cpu-1"));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(authority_.CheckIssued(response->certificate()).ok());
  const CertificateFacts facts = *ReadCertificate(response->certificate());
  EXPECT_EQ(facts.identity, (Identity{Role::kWorker, "cpu-1", token.id}));
  EXPECT_EQ(facts.not_after_s, NowSeconds() + kWorkerLifetime_s);
  // S10: again, and after a restart, with another key under the same name and another.
  EXPECT_NE(Why(Enroll(With(token, "cpu-1"))).find("which is spent"), std::string::npos);
  Restart();
  EXPECT_NE(Why(Enroll(With(token, "cpu-2"))).find("which is spent"), std::string::npos);
}

// The answer was lost, or the coordinator died before sending it: the use belongs to the owner of
// the key, and to no other.
TEST_F(EnrollmentTest, ALostAnswerIsGivenAgainToTheSameKey) {
  const JoinToken token = Token();
  const PrivateKey key = *PrivateKey::Generate();
  const v1::EnrollRequest request = With(token, "cpu-1", key);
  ASSERT_TRUE(Enroll(request).ok());
  for (int i = 0; i < 2; ++i) {
    const auto again = Enroll(request);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ReadCertificate(again->certificate())->identity, (Identity{Role::kWorker, "cpu-1", token.id}));
    EXPECT_EQ(ledger_->Tokens()->front().used, 1u);
    Restart();
  }
  EXPECT_NE(Why(Enroll(With(token, "cpu-2", key))).find("which is spent"), std::string::npos) << "one use, one name";
  EXPECT_NE(Why(Enroll(With(token, "cpu-1"))).find("which is spent"), std::string::npos);
  v1::EnrollRequest forged = request;
  (*forged.mutable_signing_request())[forged.signing_request().size() / 2] ^= 1;
  EXPECT_NE(Why(Enroll(forged)).find("which is spent"), std::string::npos) << "who has not the key";
  ASSERT_TRUE(RevokeToken(token.id).ok());
  EXPECT_NE(Why(Enroll(request)).find("was revoked"), std::string::npos);
}

TEST_F(EnrollmentTest, ATokenIsNotRevokedByItsHolder) {
  const JoinToken token = Token();
  const Identity holder{Role::kAdmin, "ops", token.id};
  EXPECT_EQ(RevokeToken(token.id, holder).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RevokeToken(token.id, Identity{Role::kAdmin, "ops", ""}).ok());
}

TEST_F(EnrollmentTest, LastHoldersOfATokenAreStored) {
  const JoinToken token = Token(kHoldersKept + 1);
  const v1::EnrollRequest first = With(token, "first", *PrivateKey::Generate());
  const v1::EnrollRequest second = With(token, "second", *PrivateKey::Generate());
  ASSERT_TRUE(Enroll(first).ok());
  ASSERT_TRUE(Enroll(second).ok());
  for (size_t i = 0; i + 1 < kHoldersKept; ++i) ASSERT_TRUE(Enroll(With(token, "later")).ok()) << i;
  EXPECT_EQ(ledger_->Tokens()->front().holders.size(), kHoldersKept);
  EXPECT_TRUE(Enroll(second).ok());
  EXPECT_EQ(ledger_->Tokens()->front().used, kHoldersKept + 1);
  EXPECT_NE(Why(Enroll(first)).find("which are spent"), std::string::npos);
}

// S10, S11. The token of a fleet: each use is on disk before its answer, so that no restart gives a use too many.
TEST_F(EnrollmentTest, UsesOfAFleetsTokenAreCountedOverRestarts) {
  const JoinToken token = Token(3, "worker", "spot-*");
  EXPECT_NE(Why(Enroll(With(token, "cpu-1"))).find("begin with 'spot-' only"), std::string::npos);
  for (const char* name : {"spot-1", "spot-2", "spot-1"}) {
    absl::StatusOr<v1::EnrollResponse> lost = absl::UnknownError("no answer");
    const v1::EnrollRequest request = With(token, name, *PrivateKey::Generate());
    enrollment_->Enroll(request, kAddress, Into(lost));
    Settle();
    ASSERT_TRUE(lost.ok()) << lost.status();
    Restart();
    ASSERT_TRUE(Enroll(request).ok()) << "the answer was lost, and the machine asks again";
  }
  EXPECT_EQ(ledger_->Tokens()->front().used, 3u);
  EXPECT_EQ(ledger_->Tokens()->front().name, "spot-*");
  EXPECT_NE(Why(Enroll(With(token, "spot-4"))).find("was valid for 3 uses, which are spent"), std::string::npos);
  ASSERT_TRUE(RevokeToken(token.id).ok());
  EXPECT_NE(Why(Enroll(With(token, "spot-1"))).find("was revoked"), std::string::npos);
}

TEST_F(EnrollmentTest, TwoAtTheSameTimeAreNotBothLetIn) {
  const JoinToken token = Token();
  absl::StatusOr<v1::EnrollResponse> one = absl::UnknownError(""), two = absl::UnknownError("");
  enrollment_->Enroll(With(token, "a"), kAddress, Into(one));
  enrollment_->Enroll(With(token, "b"), kAddress, Into(two));
  Settle();
  EXPECT_TRUE(one.ok()) << one.status();
  EXPECT_FALSE(two.ok());
}

TEST_F(EnrollmentTest, EachRefusalHasItsReason) {
  const JoinToken token = Token(100);
  JoinToken wrong = token;
  wrong.secret.bytes()[3] ^= 1;
  EXPECT_NE(Why(Enroll(With(wrong, "a"), "1")).find("not known"), std::string::npos);
  wrong = token;
  wrong.id = "0000000000000000";
  EXPECT_NE(Why(Enroll(With(wrong, "a"), "2")).find("not known"), std::string::npos);
  EXPECT_NE(Why(Enroll({}, "3")).find("not known"), std::string::npos);
  v1::EnrollRequest request = With(token, "a");
  request.set_role("admin");
  EXPECT_NE(Why(Enroll(request, "4")).find("for a worker, not for a admin"), std::string::npos);
  EXPECT_NE(Why(Enroll(With(token, "A b"), "5"), absl::StatusCode::kInvalidArgument).find("a-z"), std::string::npos);
  request = With(token, "a");
  request.set_signing_request("rubbish");
  Why(Enroll(request, "6"), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Why(Enroll(With(Token(1, "worker", "x"), "y"), "7")).find("'x' only"), std::string::npos);
  clock_.Advance(Seconds(86'401));
  EXPECT_NE(Why(Enroll(With(token, "a"), "8")).find("expired at"), std::string::npos);
}

TEST_F(EnrollmentTest, RenewalNeedsTheSameKeyAndWorksForAWhileAfterTheEnd) {
  const PrivateKey key = *PrivateKey::Generate();
  const std::string first = Enroll(With(Token(), "cpu-1", key))->certificate();
  clock_.Advance(Seconds(kWorkerLifetime_s / 2));
  const auto second = Enroll(Renewal(first, key));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ReadCertificate(second->certificate())->identity, ReadCertificate(first)->identity);
  EXPECT_EQ(ReadCertificate(second->certificate())->not_after_s, NowSeconds() + kWorkerLifetime_s);
  EXPECT_NE(Why(Enroll(Renewal(first, *PrivateKey::Generate()))).find("key of the old certificate"), std::string::npos);
  const Authority stranger = *Authority::Create(NowSeconds());
  const std::string strange = *stranger.Sign(*MakeSigningRequest(key), {Role::kAdmin, "eve", ""}, NowSeconds(), 60);
  Why(Enroll(Renewal(strange, key)), absl::StatusCode::kPermissionDenied);
  const std::string own = *authority_.Sign(*MakeSigningRequest(key), {Role::kCoordinator, "c", ""}, NowSeconds(), 60);
  EXPECT_NE(Why(Enroll(Renewal(own, key))).find("cannot be renewed"), std::string::npos);
  // The machine was off for three weeks; then for two months.
  clock_.Advance(Seconds(21 * 86'400));
  const auto back = Enroll(Renewal(second->certificate(), key));
  ASSERT_TRUE(back.ok()) << back.status();
  clock_.Advance(Seconds(60 * 86'400));
  EXPECT_NE(Why(Enroll(Renewal(back->certificate(), key))).find("too long ago"), std::string::npos);
}

// Certificates and tokens of the old authority can be exchanged for new ones until that authority
// is retired.
TEST_F(EnrollmentTest, RotatedAuthorityRenewsOlderCertificates) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token(2);
  const auto first = Enroll(With(token, "cpu-1", key));
  EXPECT_EQ(first->authorities(), authority_.certificates_pem());
  const JoinToken late = Token();
  clock_.Advance(Seconds(1));
  authority_ = *authority_.Rotated(NowSeconds());
  const JoinToken after = Token();
  const auto second = Enroll(Renewal(first->certificate(), key));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(authority_.Alone().CheckIssued(second->certificate()).ok());
  EXPECT_EQ(second->authorities(), authority_.certificates_pem());
  EXPECT_TRUE(Enroll(With(token, "cpu-2")).ok());
  EXPECT_EQ(Token().authority, authority_.fingerprint());
  authority_ = authority_.Alone();
  EXPECT_NE(Why(Enroll(With(late, "cpu-4"))).find("was created under an authority that is retired"), std::string::npos);
  Why(Enroll(Renewal(first->certificate(), key)), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Enroll(Renewal(second->certificate(), key))->authorities(), authority_.certificates_pem());
  EXPECT_TRUE(Enroll(With(after, "cpu-3")).ok());
}

TEST_F(EnrollmentTest, ALaterRotationBringsNoRetiredTokenBack) {
  const JoinToken stolen = Token(10);
  clock_.Advance(Seconds(1));
  authority_ = authority_.Rotated(NowSeconds())->Alone();
  const JoinToken after = Token();
  clock_.Advance(Seconds(1));
  authority_ = *authority_.Rotated(NowSeconds());
  EXPECT_NE(Why(Enroll(With(stolen, "cpu-1"))).find("was created under an authority that is retired"),
            std::string::npos);
  EXPECT_TRUE(Enroll(With(after, "cpu-2")).ok());
}

// A user's certificate ends at its time, also if there is no token to revoke.
TEST_F(EnrollmentTest, APersonsCertificateIsNotRenewed) {
  const PrivateKey key = *PrivateKey::Generate();
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
    const std::string own = *authority_.Sign(*MakeSigningRequest(key), {role, "ops", ""}, NowSeconds(), 86'400);
    EXPECT_NE(Why(Enroll(Renewal(own, key))).find("only a worker's can: enrol with a new join token"),
              std::string::npos);
  }
}

TEST_F(EnrollmentTest, AFloodOfRefusalsIsCounted) {
  const auto lines = [this] { return log_.Recent(2000).size(); };
  for (uint32_t i = 0; i < LineRate::kLines + 40; ++i) (void)Enroll(With(JoinToken{}, "\u00e9" + std::string(80, 'x')));
  EXPECT_EQ(lines(), size_t{LineRate::kLines});
  clock_.Advance(LineRate::kEvery);
  (void)Enroll(With(JoinToken{}, "x"));
  EXPECT_NE(log_.Recent(1).at(0).ToText().find("not_told_before=40"), std::string::npos);
}

// Renewals and repeated answers are counted too; every first enrolment is logged.
TEST_F(EnrollmentTest, AFloodOfRenewalsIsCounted) {
  const JoinToken token = Token(5);
  const PrivateKey key = *PrivateKey::Generate();
  const std::string certificate = Enroll(With(token, "cpu-1", key))->certificate();
  const auto lines = [this] { return log_.Recent(2000).size(); };
  const size_t before = lines();
  for (uint32_t i = 0; i < LineRate::kLines; ++i) {
    EXPECT_TRUE(Enroll(Renewal(certificate, key)).ok());
    EXPECT_TRUE(Enroll(With(token, "cpu-1", key)).ok());
  }
  EXPECT_EQ(lines(), before + LineRate::kLines);
  EXPECT_TRUE(Enroll(With(token, "cpu-2")).ok());
  EXPECT_EQ(lines(), before + LineRate::kLines + 1);
  EXPECT_NE(log_.Recent(1).at(0).ToText().find("worker/cpu-2"), std::string::npos);
  clock_.Advance(LineRate::kEvery);
  EXPECT_TRUE(Enroll(Renewal(certificate, key)).ok());
  EXPECT_NE(log_.Recent(1).at(0).ToText().find(absl::StrCat("not_told_before=", LineRate::kLines)), std::string::npos);
}

// S9: many clients share one address: wrong tokens of one client must not refuse the others.
TEST_F(EnrollmentTest, WrongTokensDoNotBlockOthersOfTheAddress) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token(100);
  const std::string certificate = Enroll(With(token, "cpu-1", key))->certificate();
  const std::string strange =
      *Authority::Create(NowSeconds())
           ->Sign(*MakeSigningRequest(key), {Role::kWorker, "w", ""}, NowSeconds(), kWorkerLifetime_s);
  JoinToken wrong = token;
  wrong.secret.bytes()[0] ^= 1;
  for (int i = 0; i < 200; ++i) {
    Why(Enroll(With(wrong, "a", key)));
    Why(Enroll(Renewal(strange, key)), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_TRUE(Enroll(With(token, "cpu-2")).ok());
  EXPECT_TRUE(Enroll(Renewal(certificate, key)).ok());
}

// S9: a wrong proof is refused in the caller's thread without waiting, so that it keeps no other
// client out.
TEST_F(EnrollmentTest, WrongProofsTakeNoPlaceInTheQueue) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token();
  JoinToken wrong = token;
  wrong.secret.bytes()[15] ^= 1;
  const std::string own = *authority_.Sign(*MakeSigningRequest(key), {Role::kWorker, "w", ""}, NowSeconds(), 60);
  for (const v1::EnrollRequest& request : {With(wrong, "a"), Renewal(own, *PrivateKey::Generate())}) {
    for (uint32_t i = 0; i < 2 * Enrollment::kWaiting; ++i) {
      absl::StatusOr<v1::EnrollResponse> answer = absl::UnknownError("no answer yet");
      enrollment_->Enroll(request, kAddress, Into(answer));
      ASSERT_EQ(answer.status().code(), absl::StatusCode::kUnauthenticated) << answer.status();
    }
  }
  EXPECT_TRUE(Enroll(With(token, "a")).ok());
}

// The owner of a token and its key may ask as often as it likes: the repeats cause no flush.
TEST_F(EnrollmentTest, AnAnswerGivenAgainIsNotWrittenAgain) {
  const JoinToken token = Token();
  const v1::EnrollRequest request = With(token, "cpu-1");
  ASSERT_TRUE(Enroll(request).ok());
  disk_error_ = absl::ResourceExhaustedError("a write");
  EXPECT_TRUE(Enroll(request).ok());
  disk_error_ = absl::OkStatus();
  clock_.Advance(Seconds(6 * 3600 + 1));
  ASSERT_TRUE(Enroll(request).ok());
  EXPECT_EQ(disk_.tokens.at(token.id).issue_s, NowSeconds());
}

TEST_F(EnrollmentTest, WaitingEnrolmentsAreLimited) {
  const JoinToken token = Token(1000);
  std::vector<absl::StatusOr<v1::EnrollResponse>> answers(Enrollment::kWaiting + 1, absl::UnknownError("no answer"));
  const v1::EnrollRequest request = With(token, "a");
  for (auto& answer : answers) enrollment_->Enroll(request, kAddress, Into(answer));
  EXPECT_EQ(answers.back().status().code(), absl::StatusCode::kResourceExhausted);
  Settle();
  EXPECT_TRUE(answers.front().ok() && answers[Enrollment::kWaiting - 1].ok());
  EXPECT_TRUE(Enroll(request).ok());
}

TEST_F(EnrollmentTest, TheSecretIsNowhere) {
  const JoinToken token = Token(2);
  EXPECT_TRUE(Enroll(With(token, "a")).ok());
  const std::string secret(token.secret.bytes().begin(), token.secret.bytes().end());
  for (const LogLine& line : log_.Recent(100)) EXPECT_EQ(line.ToText().find(secret), std::string::npos);
  EXPECT_EQ(Ask(&Enrollment::ListTokens, v1::ListTokensRequest())->SerializeAsString().find(secret), std::string::npos);
  EXPECT_EQ(disk_.tokens.at(token.id).used, 1u);
}

TEST_F(EnrollmentTest, ManyTokensAreListedInPages) {
  std::vector<TokenRecord> many(Enrollment::kTokens);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i].id = absl::StrFormat("%016x", i);
    many[i].name = std::string(60, 'n');
  }
  enrollment_->Load(many, {});
  size_t listed = 0, pages = 0;
  v1::ListTokensRequest request;
  do {
    const auto page = Ask(&Enrollment::ListTokens, request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), limits::kMessageBytes);
    for (const v1::JoinToken& token : page->tokens()) EXPECT_EQ(token.id(), many[listed++].id);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && ++pages < 10);
  EXPECT_EQ(listed, many.size());
  request.set_page_token("0000000000003ffe5");  // of a token that does not exist
  const auto rest = Ask(&Enrollment::ListTokens, request);
  ASSERT_EQ(rest->tokens_size(), 1);
  EXPECT_EQ(rest->next_page_token(), "");
}

TEST_F(EnrollmentTest, NoCertificateWithoutTheUseOnDisk) {
  const JoinToken token = Token();
  disk_error_ = absl::ResourceExhaustedError("disk full");
  EXPECT_FALSE(Enroll(With(token, "a")).ok());
  EXPECT_EQ(fatal_.code(), absl::StatusCode::kResourceExhausted);
}

// A used token is deleted once no certificate issued for it is valid or renewable; other tokens
// stay revocable.
TEST_F(EnrollmentTest, UsedTokensGoWhenNothingByThemIsLeft) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token();
  const std::string first = Enroll(With(token, "cpu-1", key))->certificate();
  for (size_t i = disk_.tokens.size(); i < Enrollment::kTokens; ++i) {
    TokenRecord used = disk_.tokens.at(token.id);
    used.id = absl::StrCat("gone-", i);
    disk_.tokens[used.id] = used;
  }
  Restart();
  v1::CreateTokenRequest request;
  request.set_role("worker");
  const auto refusal = Ask(&Enrollment::CreateToken, request);
  EXPECT_EQ(refusal.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refusal.status().message().find("16384 join tokens"), std::string::npos) << refusal.status();
  clock_.Advance(Seconds(20 * 86'400));
  ASSERT_TRUE(Enroll(Renewal(first, key)).ok());
  clock_.Advance(Seconds(11 * 86'400));
  EXPECT_FALSE(Ask(&Enrollment::CreateToken, request).ok())
      << "a certificate may be 6 hours younger than the ledger says";
  clock_.Advance(Seconds(6 * 3600 + 1));
  EXPECT_TRUE(Ask(&Enrollment::CreateToken, request).ok());
  EXPECT_LT(disk_.tokens.size(), Enrollment::kTokens);
  EXPECT_GT(disk_.tokens.size(), Enrollment::kTokens - 100) << "each is a flush: not all at once";
  Restart();
  EXPECT_TRUE(RevokeToken(token.id).ok());
}

// A renewal every few seconds does not cause ledger writes.
TEST_F(EnrollmentTest, ARenewalIsWrittenDownNowAndThen) {
  const PrivateKey key = *PrivateKey::Generate();
  const JoinToken token = Token();
  const std::string certificate = Enroll(With(token, "cpu-1", key))->certificate();
  const int64_t issued = disk_.tokens.at(token.id).issue_s;
  EXPECT_EQ(issued, NowSeconds());
  clock_.Advance(Seconds(6 * 3600));
  ASSERT_TRUE(Enroll(Renewal(certificate, key)).ok());
  EXPECT_EQ(disk_.tokens.at(token.id).issue_s, issued);
  clock_.Advance(Seconds(1));
  ASSERT_TRUE(Enroll(Renewal(certificate, key)).ok());
  EXPECT_EQ(disk_.tokens.at(token.id).issue_s, NowSeconds());
}

TEST_F(EnrollmentTest, WantedTokensAreChecked) {
  v1::CreateTokenRequest request;
  const auto refused = [&] {
    return Ask(&Enrollment::CreateToken, request).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused());
  request.set_role("coordinator");
  EXPECT_TRUE(refused());
  request.set_role("viewer");
  request.set_uses(10'001);
  EXPECT_TRUE(refused());
  request.set_uses(0);
  request.mutable_lifetime()->set_seconds(31 * 86'400);
  EXPECT_TRUE(refused());
  request.mutable_lifetime()->set_seconds(-1);
  EXPECT_TRUE(refused());
  request.mutable_lifetime()->set_seconds(60);
  request.set_name("Not a name");
  EXPECT_TRUE(refused());
  request.set_name("bob");
  EXPECT_FALSE(refused());
}

}  // namespace
}  // namespace atl
