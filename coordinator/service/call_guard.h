// SPDX-License-Identifier: Apache-2.0
// Decides each call before its handler: by revocations, role table and the caller's budget. Writes the audit lines.
#ifndef ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_
#define ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/line_rate.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/answer_budget.h"
#include "common/trust/access.h"
#include "common/trust/revocations.h"
#include "coordinator/service/audit_trail.h"
#include "coordinator/service/call_budget.h"

namespace atl {

// "worker/cpu-1": the name of a caller in audit lines.
std::string Who(const Identity& identity);

// Calls of one person that change state. Each writes two lines to the audit log; without a limit they push out others.
inline constexpr CallBudget::Limits kChangesOfOne = {.at_once = 200, .every = Seconds(1)};
// Queries of one identity, watches included. The limit leaves the engine's time to the rounds, and queries of other
// identities do not wait for seconds.
inline constexpr CallBudget::Limits kQueriesOfOne = {.at_once = 50, .every = Milliseconds(50)};

// Thread-safe; never waits. Writes an audit line for every refused call, for every allowed call that changes
// state, and for the outcome of such a call if it has one answer. Refusals, and allowed calls of workers, have a rate
// (LineRate): lines beyond it are counted, and the next line reports the count.
class CallGuard {
 public:
  CallGuard(AuditTrail& trail, const Clock& clock, const AnswerBudget::Limits& answers = {})
      : trail_(trail), clock_(clock), answers_(answers) {}
  // PermissionDenied with the reason, or ResourceExhausted for a person with too many changes or a
  // caller with too many queries. A CallCheck of common/rpc/tls.h.
  absl::Status Check(const std::string& method, const CertificateFacts& caller) ATOLL_EXCLUDES(mutex_);
  // Logs the outcome of a call that Check allowed, if the call changes state: done, or failed with
  // the reason. `about`: the object of the call, as its caller named it, such as "jobs/tiny".
  void TellOutcome(const std::string& method, const Identity& caller, const std::string& about,
                   const absl::Status& outcome);
  // From now on refuses certificates issued for this token, or to this name up to `revoke_s` (Unix seconds).
  void RevokeToken(const std::string& id) ATOLL_EXCLUDES(mutex_);
  void RevokeName(const std::string& name, int64_t revoke_s) ATOLL_EXCLUDES(mutex_);
  // CheckRevoked, for connections and enrolments: PermissionDenied if revoked. RevokedAt: the time of the revocation.
  absl::Status CheckRevoked(const CertificateFacts& caller) const ATOLL_EXCLUDES(mutex_);
  std::optional<int64_t> RevokedAt(const std::string& name) const ATOLL_EXCLUDES(mutex_);
  // The budget of unread answers, shared by all services that this guard protects.
  AnswerBudget& answers() { return answers_; }

 private:
  absl::Status Decide(const std::string& method, const CertificateFacts& caller) ATOLL_EXCLUDES(mutex_);
  void TellRefusal(const std::string& method, const Identity& caller, const absl::Status& why);
  void TellAllowed(const std::string& method, const Identity& caller);

  AuditTrail& trail_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Revocations revoked_ ATOLL_GUARDED_BY(mutex_);
  CallBudget changes_ ATOLL_GUARDED_BY(mutex_){kChangesOfOne}, queries_ ATOLL_GUARDED_BY(mutex_){kQueriesOfOne};
  LineRate refusals_, workers_;
  AnswerBudget answers_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_
