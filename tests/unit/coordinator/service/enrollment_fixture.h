// SPDX-License-Identifier: Apache-2.0
// An Enrollment over an in-memory ledger, and requests of strangers and members.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_SERVICE_ENROLLMENT_FIXTURE_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_SERVICE_ENROLLMENT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/wall_time.h"
#include "common/plan/limits.h"
#include "coordinator/service/enrollment.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_ledger.h"

namespace atl {

inline constexpr char kAddress[] = "ipv4:10.0.0.7";

class EnrollmentTest : public testing::Test {
 protected:
  EnrollmentTest() { Restart(); }
  void Restart() {
    enrollment_ = std::make_unique<Enrollment>(EnrollmentParts{[this] { return authority_; }, *ledger_, executor_,
                                                               clock_, trail_, guard_, [this] { ++ended_; },
                                                               [this](const absl::Status& why) { fatal_ = why; }});
    enrollment_->Load(*ledger_->Tokens(), *ledger_->Revocations());
  }
  int64_t NowSeconds() const { return WallSeconds(clock_); }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(void (Enrollment::*method)(const Request&, Answer<Response>), const Request& request) {
    absl::StatusOr<Response> out = absl::UnknownError("no answer");
    ((*enrollment_).*method)(request, Into(out));
    Settle();
    return out;
  }
  absl::StatusOr<v1::EnrollResponse> Enroll(const v1::EnrollRequest& request, const std::string& address = kAddress) {
    absl::StatusOr<v1::EnrollResponse> out = absl::UnknownError("no answer");
    enrollment_->Enroll(request, address, Into(out));
    Settle();
    return out;
  }
  template <typename Response>
  static Answer<Response> Into(absl::StatusOr<Response>& out) {
    return [&out](const absl::Status& status, Response response) {
      if (status.ok()) {
        out = std::move(response);
      } else {
        out = status;
      }
    };
  }
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const std::string& id,
                                                      const std::optional<Identity>& caller = std::nullopt) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    absl::StatusOr<v1::RevokeTokenResponse> out = absl::UnknownError("no answer");
    enrollment_->RevokeToken(request, caller, Into(out));
    Settle();
    return out;
  }
  absl::StatusOr<v1::RevokeIdentityResponse> Revoke(const std::string& name,
                                                    const std::optional<Identity>& caller = Identity{Role::kAdmin,
                                                                                                     "ops", ""}) {
    v1::RevokeIdentityRequest request;
    request.set_name(name);
    absl::StatusOr<v1::RevokeIdentityResponse> out = absl::UnknownError("no answer");
    enrollment_->RevokeIdentity(request, caller, Into(out));
    Settle();
    return out;
  }
  // Runs everything posted so far.
  void Settle() { executor_.RunAll(); }

  JoinToken Token(uint32_t uses = 1, const std::string& role = "worker", const std::string& name = "") {
    v1::CreateTokenRequest request;
    request.set_role(role);
    request.set_uses(uses);
    request.set_name(name);
    const auto made = Ask(&Enrollment::CreateToken, request);
    EXPECT_TRUE(made.ok()) << made.status();
    return *ParseJoinToken(made->text());
  }
  static v1::EnrollRequest With(const JoinToken& token, const std::string& name, const PrivateKey& key) {
    v1::EnrollRequest request;
    request.set_signing_request(*MakeSigningRequest(key));
    request.set_token_id(token.id);
    request.set_token_secret(std::string(token.secret.bytes().begin(), token.secret.bytes().end()));
    request.set_name(name);
    return request;
  }
  static v1::EnrollRequest With(const JoinToken& token, const std::string& name) {
    return With(token, name, *PrivateKey::Generate());
  }
  static v1::EnrollRequest Renewal(const std::string& certificate, const PrivateKey& key) {
    v1::EnrollRequest request;
    request.set_signing_request(*MakeSigningRequest(key));
    request.set_certificate(certificate);
    return request;
  }
  static std::string Why(const absl::StatusOr<v1::EnrollResponse>& response,
                         absl::StatusCode code = absl::StatusCode::kUnauthenticated) {
    EXPECT_EQ(response.status().code(), code) << response.status();
    return std::string(response.status().message());
  }

  ManualClock clock_;
  Authority authority_ = *Authority::Create(WallSeconds(clock_));
  MemoryLedgerDisk disk_;
  std::unique_ptr<Ledger> ledger_ = MakeMemoryLedger(disk_, [this] { return disk_error_; });
  absl::Status disk_error_, fatal_;
  int ended_ = 0;  // how often the connections of revoked identities were ended
  Log log_{{.to_stderr = false}};
  AuditTrail trail_{log_, clock_};
  CallGuard guard_{trail_, clock_};
  ManualExecutor executor_;
  std::unique_ptr<Enrollment> enrollment_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_SERVICE_ENROLLMENT_FIXTURE_H_
