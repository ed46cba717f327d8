// SPDX-License-Identifier: Apache-2.0
// An event log whose lines are written on an executor: whoever tells an event never waits for the disk.
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

// Thread-safe. Append never waits; Read and Sync wait for the line that is being written, and know only what is
// written. The executor runs one job after the other and is stopped before the log goes away.
class QueuedEventLog final : public EventLog {
 public:
  static constexpr size_t kWaiting = 4096;  // lines for the disk; more are lost

  QueuedEventLog(std::unique_ptr<EventLog> kept, Executor& executor, Log& log)
      : kept_(std::move(kept)), executor_(executor), log_(log) {}

  // ResourceExhausted when kWaiting lines wait: this one is lost. What the disk then refuses is told in the log, the
  // first of a row of lines that it takes no more.
  absl::Status Append(const LoggedEvent& event) override ATOLL_EXCLUDES(mutex_);
  absl::StatusOr<uint64_t> Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const override
      ATOLL_EXCLUDES(kept_mutex_);
  absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t most_bytes,
                               const std::function<void(LoggedEvent)>& visit) const override
      ATOLL_EXCLUDES(kept_mutex_);
  // On the executor.
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
  std::deque<LoggedEvent> waiting_ ATOLL_GUARDED_BY(mutex_);  // while there are some a job is posted
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_QUEUED_EVENT_LOG_H_
