// SPDX-License-Identifier: Apache-2.0
// Decides each call before its handler: what was revoked, then the role table; and writes the audit lines.
#ifndef ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_
#define ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/trust/access.h"
#include "common/trust/revocations.h"
#include "coordinator/service/audit_trail.h"

namespace atl {

// "worker/cpu-1": how audit lines name somebody.
std::string Who(const Identity& identity);

// How often each of many may change something: kAtOnce at once, and one more for each kEvery since. Each change is two
// lines of the audit log, and whoever makes them without end pushes out what else it did.
class ChangeBudget {
 public:
  static constexpr int64_t kAtOnce = 200;
  static constexpr Duration kEvery = Seconds(1);
  // False: not now.
  bool Take(const std::string& who, Instant now);

 private:
  std::map<std::string, Instant> whole_at_;  // when all of it is there again
};

// Thread-safe; never waits. An audit line for every refused call, for every allowed one that changes state and, where
// it has one answer, for what came of it. Of refusals, and of allowed calls of workers, those beyond
// LineRate are counted, and the next line tells the count.
class CallGuard {
 public:
  CallGuard(AuditTrail& trail, const Clock& clock) : trail_(trail), clock_(clock) {}
  // PermissionDenied with the reason, or ResourceExhausted for a person who changes too much; a CallCheck of
  // common/rpc/tls.h.
  absl::Status Check(const std::string& method, const CertificateFacts& caller) ATOLL_EXCLUDES(mutex_);
  // Tells what came of a call that Check has allowed, where it changes state: done, or failed and why. `about` is what
  // it was to change, as its caller named it: "jobs/tiny".
  void TellOutcome(const std::string& method, const Identity& caller, const std::string& about,
                   const absl::Status& outcome);
  // From now on no certificate that came by this token, or that this name had until then, makes a call.
  void RevokeToken(const std::string& id) ATOLL_EXCLUDES(mutex_);
  void RevokeName(const std::string& name, int64_t revoke_s) ATOLL_EXCLUDES(mutex_);
  // As of Revocations: PermissionDenied with the reason. For connections, renewals and enrolments.
  absl::Status CheckRevoked(const CertificateFacts& caller) const ATOLL_EXCLUDES(mutex_);
  std::optional<int64_t> RevokedAt(const std::string& name) const ATOLL_EXCLUDES(mutex_);

 private:
  absl::Status Decide(const std::string& method, const CertificateFacts& caller) ATOLL_EXCLUDES(mutex_);
  void TellRefusal(const std::string& method, const Identity& caller, const absl::Status& why);
  void TellAllowed(const std::string& method, const Identity& caller);

  AuditTrail& trail_;
  const Clock& clock_;
  mutable Mutex mutex_;
  Revocations revoked_ ATOLL_GUARDED_BY(mutex_);
  ChangeBudget changes_ ATOLL_GUARDED_BY(mutex_);
  LineRate refusals_, workers_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CALL_GUARD_H_
