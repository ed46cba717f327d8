// SPDX-License-Identifier: Apache-2.0
// Enrolment and revocation of identities: keeps the join tokens and the revoked names, and issues a
// certificate for a token or an old certificate. Requests in, answers through callbacks; the HTTPS
// side is common/rpc/enroll_server.h.
#ifndef ATOLL_COORDINATOR_SERVICE_ENROLLMENT_H_
#define ATOLL_COORDINATOR_SERVICE_ENROLLMENT_H_

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/worker.pb.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/base/wall_time.h"
#include "common/trust/authority.h"
#include "coordinator/service/audit_trail.h"
#include "coordinator/service/call_guard.h"
#include "coordinator/service/job_api.h"
#include "coordinator/store/ledger.h"

namespace atl {

struct EnrollmentParts {
  std::function<Authority()> authority;  // the current signer
  Ledger& ledger;
  Executor& executor;  // the ledger's, serial: runs all work except the check of proofs
  const Clock& clock;
  AuditTrail& trail;
  CallGuard& guard;
  std::function<void()> end_revoked;               // closes connections with certificates that the guard now refuses
  std::function<void(const absl::Status&)> fatal;  // called when the ledger could not be written
};

// Thread-safe, except Load: public methods pass their work to the executor. The parts must outlive the object.
//
// An address is never a reason to refuse: many people and machines share one (NAT, load balancers). A secret
// has 128 random bits, so guessing is hopeless. A wrong attempt costs one hash, or two signature checks, on the
// caller's thread. It takes no place in the ledger's queue, and its audit lines have a rate (LineRate).
class Enrollment {
 public:
  // Limit of stored join tokens.
  static constexpr size_t kTokens = 16'384;
  // Limit of stored revocations.
  static constexpr size_t kRevocations = 16'384;
  // Limit of valid enrolments that wait for the executor, so that enrolments cannot block the ledger.
  static constexpr uint32_t kWaiting = 64;

  explicit Enrollment(EnrollmentParts parts) : parts_(std::move(parts)) {}

  // Takes the ledger's tokens and revocations, and passes the revocations to the guard. Call before
  // the first listener opens.
  void Load(const std::vector<TokenRecord>& tokens, const std::vector<RevocationRecord>& revocations);

  // `address`: of the caller, for the audit log. Unauthenticated with the reason, or ResourceExhausted while
  // kWaiting requests wait. A wrong proof is answered at once, on the caller's thread. The use of a token is
  // durable before the answer, so that two concurrent requests cannot both have it. After a lost answer, a
  // retry with the same key and name gets the same use.
  void Enroll(const v1::EnrollRequest& request, const std::string& address, Answer<v1::EnrollResponse> answer);

  void CreateToken(const v1::CreateTokenRequest& request, Answer<v1::CreateTokenResponse> answer);
  // As many tokens as fit into one message, and the token of the next page.
  void ListTokens(const v1::ListTokensRequest& request, Answer<v1::ListTokensResponse> answer);
  void RevokeToken(const v1::RevokeTokenRequest& request, const std::optional<Identity>& caller,
                   Answer<v1::RevokeTokenResponse> answer);
  // Durable before the answer. Afterwards no certificate that the name holds can make a call, be
  // renewed or keep a connection. Tokens made earlier cannot give the name another certificate.
  void RevokeIdentity(const v1::RevokeIdentityRequest& request, const std::optional<Identity>& caller,
                      Answer<v1::RevokeIdentityResponse> answer);
  // As many revocations as fit into one message, and the token of the next page.
  void ListRevocations(const v1::ListRevocationsRequest& request, Answer<v1::ListRevocationsResponse> answer);

 private:
  // Checks that the caller has the secret of a token, or the key of a renewable worker certificate. Any thread.
  absl::Status CheckProof(const v1::EnrollRequest& request) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckSecret(const v1::EnrollRequest& request) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckRenewable(const v1::EnrollRequest& request) const;
  absl::Status CheckNotRevoked(const CertificateFacts& facts) const;
  void TellRefusal(const v1::EnrollRequest& request, const std::string& address, const absl::Status& why);
  // The methods below run on the executor.
  absl::StatusOr<v1::EnrollResponse> EnrollNow(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> ByToken(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> ByCertificate(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> Issue(const v1::EnrollRequest& request, const Identity& identity, bool again);
  absl::StatusOr<v1::CreateTokenResponse> CreateNow(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeTokenNow(const v1::RevokeTokenRequest& request);
  absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentityNow(const std::string& name, const std::string& by);
  // Returns `written`; if it is an error, reports it to parts_.fatal first.
  absl::Status Written(absl::Status written) const;
  // The later of the present and the first second after every revocation of the name (of any name if
  // empty), in Unix seconds. Certificates and tokens with this time are not revoked.
  int64_t SecondsAfterRevocation(const std::string& name) const;
  absl::Status Keep(const TokenRecord& record);
  // Removes up to 64 of the tokens with which no one can enrol and no certificate of which is valid or renewable.
  // A token stays until then, because revoking it revokes its certificates.
  absl::Status DropOld();
  // Removes up to 64 of the revocations that concern no valid or renewable certificate.
  absl::Status DropOldRevocations();
  int64_t NowSeconds() const { return WallSeconds(parts_.clock); }

  const EnrollmentParts parts_;
  std::atomic<uint32_t> waiting_ = 0;
  std::map<std::string, TokenRecord> tokens_;
  std::map<std::string, RevocationRecord> revocations_;
  mutable Mutex mutex_;
  std::map<std::string, Secret<32>> secrets_ ATOLL_GUARDED_BY(mutex_);  // SecretHash of each token in tokens_
  LineRate refusals_, repeats_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ENROLLMENT_H_
