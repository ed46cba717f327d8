// SPDX-License-Identifier: Apache-2.0
// The event log of jobs: one JSON object per line, in one file per job, appended, rotated by size, and read at start.
// The log is for people and curves. A crash that loses the end of the log loses no decision, so the log is not
// flushed line by line.
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
// Bytes transferred by a worker in the job since the job began.
struct LoggedTransfer {
  WorkerId worker;
  uint64_t uploaded_bytes = 0, downloaded_bytes = 0;
};
struct LoggedEvent {
  JobId job;              // empty: about the fleet (file "_fleet.jsonl", which is no valid job name)
  uint64_t revision = 0;  // incremented by one in each job
  int64_t wall_nanos = 0;
  std::string kind;  // "round committed"
  std::string text;  // one sentence
  std::map<std::string, std::string> fields;
  std::vector<LoggedPoint> points;
  std::vector<LoggedTransfer> transfers;  // workers with new transfers since the job's previous line
};

// Converts an event to one line without newline, with keys in fixed order and non-finite values as
// strings; and back. InvalidArgument when the line is not an event.
std::string EventToJson(const LoggedEvent& event);
absl::StatusOr<LoggedEvent> EventFromJson(const std::string& line);

struct EventLogOptions {
  std::string directory;
  uint64_t rotate_bytes = uint64_t{16} << 20;  // of one file; then it is renamed to NAME.1 and so on
  uint32_t keep_rotated = 4;                   // older ones are removed
};

// Not thread-safe, unless it is a QueuedEventLog. A job's file is opened at the first event that is appended.
class EventLog {
 public:
  // `files` must outlive the log. Creates the directory.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(Files& files, const EventLogOptions& options);
  virtual ~EventLog() = default;
  // ResourceExhausted when the disk is full: the line is lost, and a later one may succeed.
  virtual absl::Status Append(const LoggedEvent& event) = 0;
  // Visits every stored event of a job, oldest first. Skips torn and foreign lines, and returns
  // their number.
  virtual absl::StatusOr<uint64_t> Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const = 0;
  // Visits the events in the newest `most_bytes`, oldest first, without a partial first line and other torn or
  // foreign lines. Returns true when these bytes are everything.
  virtual absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t most_bytes,
                                       const std::function<void(LoggedEvent)>& visit) const = 0;
  // Reads after all earlier appends; `done` receives the result. The default calls both before it returns.
  virtual void ReadLater(const JobId& job, std::function<void(LoggedEvent)> visit,
                         std::function<void(absl::StatusOr<uint64_t>)> done) const {
    done(Read(job, visit));
  }
  virtual absl::Status Sync() = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_EVENT_LOG_H_
