// SPDX-License-Identifier: Apache-2.0
// Structured log lines on standard error: an event name and key-value fields, as text for people or
// as JSON for machines. A separate thread writes them (queued_writer.h), so that a stalled reader
// of standard error blocks no caller. A ring keeps the newest lines in memory for `atoll job logs`.
#ifndef ATOLL_COMMON_BASE_LOG_H_
#define ATOLL_COMMON_BASE_LOG_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  LogField(std::string k, const absl::AlphaNum& v) : key(std::move(k)), value(v.Piece()) {}
  std::string key;
  std::string value;
};

struct LogLine {
  int64_t wall_nanos = 0;
  LogLevel level = LogLevel::kInfo;
  std::string event;  // a short lower-case phrase: "round committed"
  std::vector<LogField> fields;
  std::string ToText() const;  // 2026-01-31T12:00:00.123Z INFO round committed job=tiny version=3
  std::string ToJson() const;  // {"time":…,"level":"info","event":…,"job":"tiny","version":"3"}
};

struct LogOptions {
  LogLevel minimum = LogLevel::kInfo;
  bool json = false;
  size_t ring_lines = 2000;  // lines kept for Recent()
  bool to_stderr = true;
};

// One per process, created in main and passed to its users. Thread-safe. Control characters in
// values are escaped (S23).
class Log {
 public:
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  void Write(LogLevel level, std::string event, std::initializer_list<LogField> fields = {});
  void Debug(std::string event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kDebug, std::move(event), fields);
  }
  void Info(std::string event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kInfo, std::move(event), fields);
  }
  void Warn(std::string event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kWarning, std::move(event), fields);
  }
  void Error(std::string event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kError, std::move(event), fields);
  }
  // Returns the newest `count` lines of the ring, none older than `since_wall_nanos` (Unix time), oldest first.
  std::vector<LogLine> Recent(size_t count, int64_t since_wall_nanos = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_LOG_H_
