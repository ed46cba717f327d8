// SPDX-License-Identifier: Apache-2.0
// Writes audit lines to the process's log at once, and to the audit log on disk asynchronously.
#ifndef ATOLL_COORDINATOR_SERVICE_AUDIT_TRAIL_H_
#define ATOLL_COORDINATOR_SERVICE_AUDIT_TRAIL_H_

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "coordinator/store/audit_log.h"

namespace atl {

// Thread-safe; never waits. Must outlive the executor.
class AuditTrail {
 public:
  static constexpr size_t kWaiting = 4096;  // lines that wait for the disk; further ones are dropped and counted

  AuditTrail(Log& log, const Clock& clock) : log_(log), clock_(clock) {}
  // Lines also go to `kept` from now on, written on `executor`, which must be serial. Call once,
  // before the first line.
  void KeepIn(std::unique_ptr<AuditLog> kept, Executor& executor);
  // Writes one line, with at least one field, to the process's log and, after KeepIn, to the audit log.
  void Tell(LogLevel level, std::initializer_list<LogField> fields) ATOLL_EXCLUDES(mutex_);
  // Logs that a call was allowed. `untold`: the suppressed lines of its kind since the previous one (LineRate).
  void TellAllowed(const std::string& who, const std::string& call, const std::string& token, uint64_t untold);

 private:
  void Keep() ATOLL_EXCLUDES(mutex_);

  Log& log_;
  const Clock& clock_;
  Executor* executor_ = nullptr;
  std::unique_ptr<AuditLog> kept_;  // used only on the executor
  bool failing_ = false;            // used only on the executor
  Mutex mutex_;
  std::vector<std::string> waiting_ ATOLL_GUARDED_BY(mutex_);  // a job is posted while not empty
  uint64_t lost_ ATOLL_GUARDED_BY(mutex_) = 0;                 // lines beyond kWaiting
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_AUDIT_TRAIL_H_
