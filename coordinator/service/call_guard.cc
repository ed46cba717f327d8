// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/call_guard.h"

#include <optional>
#include <utility>

#include "common/wire/sendable.h"

namespace atl {
namespace {

constexpr size_t kAboutBytes = 128, kReasonBytes = 512;  // longer text of callers is cut

// The id of the join token with which the caller enrolled.
std::string TokenOf(const Identity& caller) { return caller.token.empty() ? "none" : caller.token; }

}  // namespace

std::string Who(const Identity& identity) { return absl::StrCat(RoleName(identity.role), "/", identity.name); }

absl::Status CallGuard::Check(const std::string& method, const CertificateFacts& caller) {
  absl::Status decided = Decide(method, caller);
  if (!decided.ok()) {
    TellRefusal(method, caller.identity, decided);
  } else if (FindAccessRule(method)->changes_state) {
    TellAllowed(method, caller.identity);
  }
  return decided;
}

void CallGuard::TellOutcome(const std::string& method, const Identity& caller, const std::string& about,
                            const absl::Status& outcome) {
  const AccessRule* rule = FindAccessRule(method);
  if (rule == nullptr || !rule->changes_state) return;
  const std::string what = Sendable(about, kAboutBytes), token = TokenOf(caller);
  if (outcome.ok()) {
    trail_.Tell(LogLevel::kInfo,
                {{"who", Who(caller)}, {"call", method}, {"about", what}, {"result", "done"}, {"token", token}});
  } else {
    trail_.Tell(LogLevel::kWarning, {{"who", Who(caller)},
                                     {"call", method},
                                     {"about", what},
                                     {"result", "failed"},
                                     {"token", token},
                                     {"reason", Sendable(std::string(outcome.message()), kReasonBytes)}});
  }
}

void CallGuard::RevokeToken(const std::string& id) {
  MutexLock lock(mutex_);
  revoked_.RevokeToken(id);
}

void CallGuard::RevokeName(const std::string& name, int64_t revoke_s) {
  MutexLock lock(mutex_);
  revoked_.RevokeName(name, revoke_s);
}

absl::Status CallGuard::CheckRevoked(const CertificateFacts& caller) const {
  MutexLock lock(mutex_);
  return revoked_.Check(caller);
}

std::optional<int64_t> CallGuard::RevokedAt(const std::string& name) const {
  MutexLock lock(mutex_);
  return revoked_.RevokedAt(name);
}

absl::Status CallGuard::Decide(const std::string& method, const CertificateFacts& caller) {
  const Identity& who = caller.identity;
  ATOLL_RETURN_IF_ERROR(CheckRevoked(caller));
  ATOLL_RETURN_IF_ERROR(CheckAccess(method, who));
  const AccessRule& rule = *FindAccessRule(method);
  if (rule.transfers) return absl::OkStatus();  // limited by frames and bytes (common/rpc, RoundSegment)
  MutexLock lock(mutex_);
  if (rule.is_query()) {
    if (queries_.Take(Who(who), clock_.Now())) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        RoleName(who.role), " '", who.name, "' asks too often: ", kQueriesOfOne.at_once, " queries at once and then ",
        Seconds(1).ns / kQueriesOfOne.every.ns, " a second are allowed; try again in a second"));
  }
  // A worker changes state only through its control stream (ControlSessions).
  if (who.role == Role::kWorker || changes_.Take(Who(who), clock_.Now())) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      RoleName(who.role), " '", who.name, "' changes more than the audit log can keep: ", kChangesOfOne.at_once,
      " calls at once and then one per second are allowed; try again in a second"));
}

// A worker calls automatically and may open control streams without end: its lines have a rate.
// Calls of people are all logged.
void CallGuard::TellAllowed(const std::string& method, const Identity& caller) {
  const std::optional<uint64_t> untold = caller.role == Role::kWorker ? workers_.Take(clock_.Now()) : 0;
  if (untold) trail_.TellAllowed(Who(caller), method, TokenOf(caller), *untold);
}

void CallGuard::TellRefusal(const std::string& method, const Identity& caller, const absl::Status& why) {
  const std::optional<uint64_t> untold = refusals_.Take(clock_.Now());
  if (!untold) return;
  trail_.Tell(LogLevel::kWarning, {{"who", Who(caller)},
                                   {"call", Sendable(method, kAboutBytes)},
                                   {"result", "refused"},
                                   {"token", TokenOf(caller)},
                                   {"reason", std::string(why.message())},
                                   {"not_told_before", *untold}});
}

}  // namespace atl
