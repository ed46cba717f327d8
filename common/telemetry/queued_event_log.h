// SPDX-License-Identifier: Apache-2.0
// An event log that writes its lines on an executor, so that its callers never wait for the disk.
#ifndef ATOLL_COMMON_TELEMETRY_QUEUED_EVENT_LOG_H_
#define ATOLL_COMMON_TELEMETRY_QUEUED_EVENT_LOG_H_

#include <deque>
#include <functional>
#include <memory>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/telemetry/event_log.h"

namespace atl {

// Thread-safe. Append never blocks. Read and Sync wait for the line being written, and cover only
// written lines. The executor runs jobs one at a time and is stopped before the log is destroyed.
class QueuedEventLog final : public EventLog {
 public:
  static constexpr size_t kWaiting = 4096;  // lines queued for the disk; further ones are lost

  QueuedEventLog(std::unique_ptr<EventLog> kept, Executor& executor, Log& log)
      : kept_(std::move(kept)), executor_(executor), log_(log) {}

  // ResourceExhausted when kWaiting lines are queued: this line is lost. Errors of the disk occur later, when the
  // line is written: the line is lost, and the first error of a consecutive series is logged, as is the recovery.
  absl::Status Append(const LoggedEvent& event) override ATOLL_EXCLUDES(mutex_);
  absl::StatusOr<uint64_t> Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const override
      ATOLL_EXCLUDES(kept_mutex_);
  absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t most_bytes,
                               const std::function<void(LoggedEvent)>& visit) const override
      ATOLL_EXCLUDES(kept_mutex_);
  // Runs on the executor.
  void ReadLater(const JobId& job, std::function<void(LoggedEvent)> visit,
                 std::function<void(absl::StatusOr<uint64_t>)> done) const override;
  absl::Status Sync() override ATOLL_EXCLUDES(kept_mutex_);

 private:
  void Write() ATOLL_EXCLUDES(mutex_, kept_mutex_);

  mutable Mutex kept_mutex_;
  const std::unique_ptr<EventLog> kept_ ATOLL_GUARDED_BY(kept_mutex_);
  bool failing_ ATOLL_GUARDED_BY(kept_mutex_) = false;
  Executor& executor_;
  Log& log_;
  Mutex mutex_;
  std::deque<LoggedEvent> waiting_ ATOLL_GUARDED_BY(mutex_);  // a job is posted while it is not empty
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_QUEUED_EVENT_LOG_H_
