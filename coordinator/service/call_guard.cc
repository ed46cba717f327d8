#include "coordinator/service/call_guard.h"

#include <utility>

namespace atl {
namespace {

std::string Who(const Identity& caller) { return absl::StrCat(RoleName(caller.role), "/", caller.name); }

}  // namespace

absl::Status CallGuard::Check(const std::string& method, const Identity& caller) {
  absl::Status decided = Decide(method, caller);
  if (!decided.ok()) {
    TellRefusal(method, caller, decided);
  } else if (FindAccessRule(method)->changes_state) {
    log_.Info("audit", {{"who", Who(caller)}, {"call", method}, {"result", "allowed"}});
  }
  return decided;
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
  log_.Warn("audit", {{"who", Who(caller)},
                      {"call", method.substr(0, 128)},
                      {"result", "refused"},
                      {"reason", std::string(why.message())},
                      {"not_told_before", untold}});
}

}  // namespace atl
