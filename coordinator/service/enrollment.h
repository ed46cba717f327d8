// SPDX-License-Identifier: Apache-2.0
// Who may become whom, and who no longer is: keeps the join tokens and the revoked names, turns a token or an old
// certificate into a certificate. Requests in, answers through callbacks; the HTTPS side is common/rpc/enroll_server.h.
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
  std::function<Authority()> authority;  // the one that signs now
  Ledger& ledger;
  Executor& executor;  // the ledger's: everything below runs there, one after the other
  const Clock& clock;
  AuditTrail& trail;
  CallGuard& guard;
  std::function<void()> end_revoked;               // ends the connections whose certificates the guard refuses now
  std::function<void(const absl::Status&)> fatal;  // the ledger could not be written
};

// Thread-safe: public methods hand over to the executor. Outlived by its parts.
//
// An address is never a reason to refuse: many people and machines share one (NAT, load balancers). A secret has 128
// random bits, so nobody finds one by trying, and a wrong try costs its hash, or two signatures that are checked, in
// the caller's thread. It takes no place of those that wait for the ledger, and its audit lines have a rate (LineRate).
class Enrollment {
 public:
  // Join tokens that are kept at most.
  static constexpr size_t kTokens = 16'384;
  // Revoked names that are kept at most.
  static constexpr size_t kRevocations = 16'384;
  // Enrolments with a proof that may wait for the executor at a time: nobody holds up the ledger.
  static constexpr uint32_t kWaiting = 64;

  explicit Enrollment(EnrollmentParts parts) : parts_(std::move(parts)) {}

  // Takes the ledger's tokens and revocations, and tells the guard what is revoked. Before the first listener opens.
  void Load(const std::vector<TokenRecord>& tokens, const std::vector<RevocationRecord>& revocations);

  // `address`: of the caller, for the audit log. Unauthenticated with the reason, or ResourceExhausted while kWaiting
  // wait; answers at once, in the caller's thread, where the proof is wrong. A token's use is durable before the
  // answer, so that two at once cannot both have it; whoever had it asks again with the same key and name where the
  // answer was lost, and has the same use.
  void Enroll(const v1::EnrollRequest& request, const std::string& address, Answer<v1::EnrollResponse> answer);

  void CreateToken(const v1::CreateTokenRequest& request, Answer<v1::CreateTokenResponse> answer);
  // As many as one message holds, and where the next page begins.
  void ListTokens(const v1::ListTokensRequest& request, Answer<v1::ListTokensResponse> answer);
  void RevokeToken(const v1::RevokeTokenRequest& request, Answer<v1::RevokeTokenResponse> answer);
  // Durable before the answer. From then on no certificate that the name has by now makes a call, is renewed or keeps a
  // connection, and no token that was made by now brings the name another.
  void RevokeIdentity(const v1::RevokeIdentityRequest& request, const std::optional<Identity>& caller,
                      Answer<v1::RevokeIdentityResponse> answer);
  // As many as one message holds, and where the next page begins.
  void ListRevocations(const v1::ListRevocationsRequest& request, Answer<v1::ListRevocationsResponse> answer);

 private:
  // That the caller has the secret of a token, or the key of a worker's certificate that may be renewed. In any thread.
  absl::Status CheckProof(const v1::EnrollRequest& request) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckSecret(const v1::EnrollRequest& request) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckRenewable(const v1::EnrollRequest& request) const;
  absl::Status CheckNotRevoked(const CertificateFacts& facts) const;
  void TellRefusal(const v1::EnrollRequest& request, const std::string& address, const absl::Status& why);
  // The rest on the executor.
  absl::StatusOr<v1::EnrollResponse> EnrollNow(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> ByToken(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> ByCertificate(const v1::EnrollRequest& request);
  absl::StatusOr<v1::EnrollResponse> Issue(const v1::EnrollRequest& request, const Identity& identity, bool again);
  absl::StatusOr<v1::CreateTokenResponse> CreateNow(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeTokenNow(const v1::RevokeTokenRequest& request);
  absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentityNow(const std::string& name, const std::string& by);
  // Writes the record and ends the process where that fails.
  absl::Status Written(absl::Status written) const;
  // The present, or the first second after every revocation of the name (of any name where it is empty): what is made
  // by then is not revoked.
  int64_t SecondsAfterRevocation(const std::string& name) const;
  absl::Status Keep(const TokenRecord& record);
  // Some of the tokens that nobody can come by any more, nor has a certificate of: revoking one goes on working for
  // those who came by it.
  absl::Status DropOld();
  // Some of the revocations of which no certificate can be left.
  absl::Status DropOldRevocations();
  int64_t NowSeconds() const { return WallSeconds(parts_.clock); }

  const EnrollmentParts parts_;
  std::atomic<uint32_t> waiting_ = 0;
  std::map<std::string, TokenRecord> tokens_;
  std::map<std::string, RevocationRecord> revocations_;
  mutable Mutex mutex_;
  std::map<std::string, Secret<32>> secrets_ ATOLL_GUARDED_BY(mutex_);  // SecretHash of each of tokens_
  LineRate refusals_, repeats_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ENROLLMENT_H_
