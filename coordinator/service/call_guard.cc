#include "coordinator/service/call_guard.h"

#include <utility>

namespace atl {
namespace {

constexpr size_t kAboutBytes = 128, kReasonBytes = 512;  // what callers write is cut in a line

// The id of the join token by which the caller enrolled.
std::string TokenOf(const Identity& caller) { return caller.token.empty() ? "none" : caller.token; }

}  // namespace

std::string Who(const Identity& identity) { return absl::StrCat(RoleName(identity.role), "/", identity.name); }

absl::Status CallGuard::Check(const std::string& method, const Identity& caller) {
  absl::Status decided = Decide(method, caller);
  if (!decided.ok()) {
    TellRefusal(method, caller, decided);
  } else if (FindAccessRule(method)->changes_state) {
    trail_.Tell(LogLevel::kInfo,
                {{"who", Who(caller)}, {"call", method}, {"result", "allowed"}, {"token", TokenOf(caller)}});
  }
  return decided;
}

void CallGuard::TellOutcome(const std::string& method, const Identity& caller, const std::string& about,
                            const absl::Status& outcome) {
  const AccessRule* rule = FindAccessRule(method);
  if (rule == nullptr || !rule->changes_state) return;
  const std::string what = about.substr(0, kAboutBytes), token = TokenOf(caller);
  if (outcome.ok()) {
    trail_.Tell(LogLevel::kInfo,
                {{"who", Who(caller)}, {"call", method}, {"about", what}, {"result", "done"}, {"token", token}});
  } else {
    trail_.Tell(LogLevel::kWarning, {{"who", Who(caller)},
                                     {"call", method},
                                     {"about", what},
                                     {"result", "failed"},
                                     {"token", token},
                                     {"reason", std::string(outcome.message().substr(0, kReasonBytes))}});
  }
}

void CallGuard::Revoke(const std::string& token) {
  MutexLock lock(mutex_);
  revoked_.insert(token);
}

absl::Status CallGuard::Decide(const std::string& method, const Identity& caller) {
  ATOLL_RETURN_IF_ERROR(CheckAccess(method, caller));
  MutexLock lock(mutex_);
  if (caller.token.empty() || !revoked_.contains(caller.token)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(RoleName(caller.role), " '", caller.name,
                                                  "' enrolled with join token ", caller.token,
                                                  ", which was revoked: enrol again with another token"));
}

void CallGuard::TellRefusal(const std::string& method, const Identity& caller, const absl::Status& why) {
  uint64_t untold = 0;
  {
    MutexLock lock(mutex_);
    const Instant now = clock_.Now();
    if (now - second_ >= Seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    if (lines_ >= kRefusalLinesPerSecond) {
      ++untold_;
      return;
    }
    ++lines_;
    untold = std::exchange(untold_, 0);
  }
  trail_.Tell(LogLevel::kWarning, {{"who", Who(caller)},
                                   {"call", method.substr(0, 128)},
                                   {"result", "refused"},
                                   {"token", TokenOf(caller)},
                                   {"reason", std::string(why.message())},
                                   {"not_told_before", untold}});
}

}  // namespace atl
