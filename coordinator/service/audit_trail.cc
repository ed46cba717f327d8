// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/audit_trail.h"

#include <algorithm>
#include <utility>

namespace atl {

void AuditTrail::KeepIn(std::unique_ptr<AuditLog> kept, Executor& executor) {
  kept_ = std::move(kept);
  executor_ = &executor;
}

void AuditTrail::Tell(LogLevel level, std::initializer_list<LogField> fields) {
  log_.Write(level, "audit", fields);
  if (executor_ == nullptr) return;
  std::string line = LogLine{clock_.WallNanos(), level, "audit", fields}.ToJson();
  MutexLock lock(mutex_);
  if (waiting_.size() >= kWaiting) {
    ++lost_;
    return;
  }
  waiting_.push_back(std::move(line));
  if (waiting_.size() == 1) executor_->Post([this] { Keep(); });
}

void AuditTrail::TellAllowed(const std::string& who, const std::string& call, const std::string& token,
                             uint64_t untold) {
  const LogField by("who", who), what("call", call), result("result", "allowed"), with("token", token);
  if (untold == 0) return Tell(LogLevel::kInfo, {by, what, result, with});
  Tell(LogLevel::kInfo, {by, what, result, with, {"not_told_before", untold}});
}

void AuditTrail::Keep() {
  std::vector<std::string> lines;
  uint64_t lost = 0;
  {
    MutexLock lock(mutex_);
    lines.swap(waiting_);
    lost = std::exchange(lost_, 0);
  }
  const absl::Status kept = kept_->Append(lines);
  kept_->Lose(lost);
  if (kept.ok() == !std::exchange(failing_, !kept.ok())) return;
  if (kept.ok()) {
    log_.Info("audit log recovered");
  } else {
    log_.Error("audit log not written", {{"reason", std::string(kept.message())}, {"lines", lines.size()}});
  }
}

}  // namespace atl
