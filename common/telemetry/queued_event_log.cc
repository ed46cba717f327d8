// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/queued_event_log.h"

#include <utility>

namespace atl {

absl::Status QueuedEventLog::Append(const LoggedEvent& event) {
  MutexLock lock(mutex_);
  if (waiting_.size() >= kWaiting)
    return absl::ResourceExhaustedError(absl::StrCat(kWaiting, " lines of the event log already wait for the disk"));
  waiting_.push_back(event);
  if (waiting_.size() == 1) executor_.Post([this] { Write(); });
  return absl::OkStatus();
}

void QueuedEventLog::Write() {
  std::deque<LoggedEvent> events;
  {
    MutexLock lock(mutex_);
    events.swap(waiting_);
  }
  for (const LoggedEvent& event : events) {
    MutexLock lock(kept_mutex_);
    const absl::Status written = kept_->Append(event);
    if (written.ok() == !std::exchange(failing_, !written.ok())) continue;
    if (written.ok()) {
      log_.Info("event log recovered", {{"job", event.job.value}});
    } else {
      log_.Warn("event log lines lost", {{"job", event.job.value}, {"reason", std::string(written.message())}});
    }
  }
}

absl::StatusOr<uint64_t> QueuedEventLog::Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const {
  MutexLock lock(kept_mutex_);
  return kept_->Read(job, visit);
}

absl::StatusOr<bool> QueuedEventLog::ReadEnd(const JobId& job, uint64_t most_bytes,
                                             const std::function<void(LoggedEvent)>& visit) const {
  MutexLock lock(kept_mutex_);
  return kept_->ReadEnd(job, most_bytes, visit);
}

void QueuedEventLog::ReadLater(const JobId& job, std::function<void(LoggedEvent)> visit,
                               std::function<void(absl::StatusOr<uint64_t>)> done) const {
  executor_.Post([this, job, visit = std::move(visit), done = std::move(done)] { done(Read(job, visit)); });
}

absl::Status QueuedEventLog::Sync() {
  MutexLock lock(kept_mutex_);
  return kept_->Sync();
}

}  // namespace atl
