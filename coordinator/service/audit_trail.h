// SPDX-License-Identifier: Apache-2.0
// Where audit lines go: to the process's log at once, and to the audit log on disk soon.
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

// So many lines of one kind at once, and one more for each kEvery since: whoever makes them at will, for weeks, does
// not push out what else is kept. The rest is counted.
class LineRate {
 public:
  static constexpr uint32_t kLines = 200;
  static constexpr Duration kEvery = Seconds(20);
  // How many were not told since the one before; nothing when this one is not to be told either. Thread-safe.
  std::optional<uint64_t> Take(Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  Instant reckoned_to_ ATOLL_GUARDED_BY(mutex_) = {};
  int64_t left_ ATOLL_GUARDED_BY(mutex_) = kLines;
  uint64_t untold_ ATOLL_GUARDED_BY(mutex_) = 0;
};

// Thread-safe; never waits. Outlives the executor.
class AuditTrail {
 public:
  static constexpr size_t kWaiting = 4096;  // lines for the disk; beyond them they are lost, and counted there

  AuditTrail(Log& log, const Clock& clock) : log_(log), clock_(clock) {}
  // From now on lines go to `kept` as well, on `executor`, which runs one job after the other. Once, before the first
  // line.
  void KeepIn(std::unique_ptr<AuditLog> kept, Executor& executor);
  // At least one field.
  void Tell(LogLevel level, std::initializer_list<LogField> fields) ATOLL_EXCLUDES(mutex_);
  // That a call was allowed. `untold`: lines of its kind since the one before (LineRate).
  void TellAllowed(const std::string& who, const std::string& call, const std::string& token, uint64_t untold);

 private:
  void Keep() ATOLL_EXCLUDES(mutex_);

  Log& log_;
  const Clock& clock_;
  Executor* executor_ = nullptr;
  std::unique_ptr<AuditLog> kept_;  // used on the executor alone
  bool failing_ = false;            // there too
  Mutex mutex_;
  std::vector<std::string> waiting_ ATOLL_GUARDED_BY(mutex_);  // while there are some a job is posted
  uint64_t lost_ ATOLL_GUARDED_BY(mutex_) = 0;                 // behind kWaiting of them
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_AUDIT_TRAIL_H_
