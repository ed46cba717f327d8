// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <algorithm>
#include <ctime>
#include <deque>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex.h"
#include "common/base/queued_writer.h"
#include "common/base/utf8.h"

namespace atl {
namespace {

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kWarning: return "WARN";
    case LogLevel::kError: return "ERROR";
  }
  return "INFO";
}

std::string Stamp(int64_t wall_nanos) {
  const std::time_t seconds = static_cast<std::time_t>(wall_nanos / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         utc.tm_hour, utc.tm_min, utc.tm_sec, wall_nanos / 1'000'000 % 1000);
}

// Code of the control character at `at`, including C1, which some terminals interpret; -1 for other
// characters.
int ControlAt(const std::string& text, size_t at) {
  const unsigned lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x20 || lead == 0x7f) return static_cast<int>(lead);
  if (lead != 0xC2 || ValidUtf8Length(text, at) != 2) return -1;
  const unsigned point = static_cast<unsigned char>(text[at + 1]);
  return point < 0xA0 ? static_cast<int>(point) : -1;
}

// Escapes quotes, backslashes and control characters for a JSON string. Bytes that are not UTF-8,
// as in some file names, become U+FFFD.
std::string Escape(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t size = ValidUtf8Length(text, at);
    const int control = ControlAt(text, at);
    if (size == 0) {
      out += "\\ufffd";
    } else if (control >= 0) {
      out += absl::StrFormat("\\u%04x", control);
    } else {
      if (text[at] == '"' || text[at] == '\\') out += '\\';
      out.append(text, at, size);
    }
    at += std::max<size_t>(1, size);
  }
  return out;
}

std::string TextOf(const LogLine& line, bool json) { return (json ? line.ToJson() : line.ToText()) + "\n"; }

bool IsPlain(const std::string& text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ' ' || c == '"' || c == '=' || ControlAt(text, at) >= 0) return false;
  }
  for (size_t at = 0, size = 0; at < text.size(); at += size) {
    if ((size = ValidUtf8Length(text, at)) == 0) return false;
  }
  return !text.empty();
}

}  // namespace

std::string LogLine::ToText() const {
  std::string out = absl::StrCat(Stamp(wall_nanos), " ", Name(level), " ", Escape(event));
  for (const LogField& field : fields) {
    if (IsPlain(field.value)) {
      absl::StrAppend(&out, " ", field.key, "=", field.value);
    } else {
      absl::StrAppend(&out, " ", field.key, "=\"", Escape(field.value), "\"");
    }
  }
  return out;
}

std::string LogLine::ToJson() const {
  std::string out = absl::StrCat("{\"time\":\"", Stamp(wall_nanos), "\",\"level\":\"",
                                 absl::AsciiStrToLower(Name(level)), "\",\"event\":\"", Escape(event), "\"");
  for (const LogField& field : fields) {
    absl::StrAppend(&out, ",\"", Escape(field.key), "\":\"", Escape(field.value), "\"");
  }
  return out + "}";
}

struct Log::State {
  LogOptions options;
  SystemClock clock;
  Mutex mutex;
  std::deque<LogLine> ring ATOLL_GUARDED_BY(mutex);
};

Log::Log(LogOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
  if (!options.to_stderr) return;
  StandardError().ReportLossWith([json = options.json](uint64_t lines) {
    const LogLine line{SystemClock().WallNanos(),
                       LogLevel::kWarning,
                       "log lines lost",
                       {{"lines", lines}, {"reason", "standard error accepted no lines"}}};
    return TextOf(line, json);
  });
}

Log::~Log() {
  if (state_->options.to_stderr) (void)StandardError().Flush();
}

void Log::Write(LogLevel level, std::string event, std::initializer_list<LogField> fields) {
  if (level < state_->options.minimum) return;
  LogLine line{state_->clock.WallNanos(), level, std::move(event), fields};
  if (state_->options.to_stderr) StandardError().Write(TextOf(line, state_->options.json));
  MutexLock lock(state_->mutex);
  state_->ring.push_back(std::move(line));
  while (state_->ring.size() > state_->options.ring_lines) state_->ring.pop_front();
}

std::vector<LogLine> Log::Recent(size_t count, int64_t since_wall_nanos) const {
  std::vector<LogLine> lines;
  MutexLock lock(state_->mutex);
  for (auto it = state_->ring.rbegin(); it != state_->ring.rend() && lines.size() < count; ++it) {
    if (it->wall_nanos >= since_wall_nanos) lines.push_back(*it);
  }
  return {lines.rbegin(), lines.rend()};
}

}  // namespace atl
