// SPDX-License-Identifier: Apache-2.0
// The event log of jobs: one JSON object a line, in one file per job, appended, rotated by size, read back at start. It
// is for people and curves: losing its tail in a crash loses no decision, so it is not flushed to the disk line by
// line.
#ifndef ATOLL_COMMON_TELEMETRY_EVENT_LOG_H_
#define ATOLL_COMMON_TELEMETRY_EVENT_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace atl {

struct LoggedPoint {
  std::string curve;  // "loss", "evaluation_loss"
  uint64_t step = 0;  // job clock
  double value = 0;
};
// What a worker has moved in the job since it began.
struct LoggedTransfer {
  WorkerId worker;
  uint64_t uploaded_bytes = 0, downloaded_bytes = 0;
};
struct LoggedEvent {
  JobId job;              // empty: about the fleet (file "_fleet.jsonl", a name that no job can have)
  uint64_t revision = 0;  // grows by one in each job
  int64_t wall_nanos = 0;
  std::string kind;  // "round committed"
  std::string text;  // one sentence
  std::map<std::string, std::string> fields;
  std::vector<LoggedPoint> points;
  std::vector<LoggedTransfer> transfers;  // of workers whose accounts have grown since the job's line before
};

// One line without its newline, keys in fixed order; non-finite values are written as strings. And back:
// InvalidArgument when the line is not an event.
std::string EventToJson(const LoggedEvent& event);
absl::StatusOr<LoggedEvent> EventFromJson(const std::string& line);

struct EventLogOptions {
  std::string directory;
  uint64_t rotate_bytes = uint64_t{16} << 20;  // of one file; then it becomes NAME.1 and so on
  uint32_t keep_rotated = 4;                   // older ones are removed
};

// Not thread-safe: calls come from one serial executor. Files are opened at the first event of a job.
class EventLog {
 public:
  // `files` must outlive the log. Makes the directory.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(Files& files, const EventLogOptions& options);
  virtual ~EventLog() = default;
  // ResourceExhausted when the disk is full: the line is lost; a later one may succeed.
  virtual absl::Status Append(const LoggedEvent& event) = 0;
  // Every kept event of a job, oldest first. A torn or foreign line is skipped; returns how many were.
  virtual absl::StatusOr<uint64_t> Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const = 0;
  // The same of the newest `most_bytes` alone, without a line that they cut; whether that was all there is.
  virtual absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t most_bytes,
                                       const std::function<void(LoggedEvent)>& visit) const = 0;
  // Read, behind what was appended before; `done` gets what it gives. Here both are called at once.
  virtual void ReadLater(const JobId& job, std::function<void(LoggedEvent)> visit,
                         std::function<void(absl::StatusOr<uint64_t>)> done) const {
    done(Read(job, visit));
  }
  virtual absl::Status Sync() = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_EVENT_LOG_H_
