#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <deque>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex.h"

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

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string Stamp(int64_t wall_nanos) {
  const std::time_t seconds = static_cast<std::time_t>(wall_nanos / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         utc.tm_hour, utc.tm_min, utc.tm_sec, wall_nanos / 1'000'000 % 1000);
}

// JSON string body: quotes, backslashes and control characters escaped; other bytes as they are.
std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += absl::StrFormat("\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

bool IsPlain(const std::string& text) {
  for (const char c : text) {
    if (c == ' ' || c == '"' || c == '=' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
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
  std::shared_ptr<spdlog::logger> sink;
  Mutex mutex;
  std::deque<LogLine> ring ATOLL_GUARDED_BY(mutex);
};

Log::Log(LogOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
  if (options.to_stderr) {
    state_->sink = std::make_shared<spdlog::logger>("atoll", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    state_->sink->set_pattern("%v");
    state_->sink->set_level(spdlog::level::trace);
    state_->sink->flush_on(spdlog::level::trace);
  }
}

Log::~Log() = default;

void Log::Write(LogLevel level, std::string event, std::initializer_list<LogField> fields) {
  if (level < state_->options.minimum) return;
  LogLine line{state_->clock.WallNanos(), level, std::move(event), fields};
  if (state_->sink) state_->sink->log(ToSpdlog(level), state_->options.json ? line.ToJson() : line.ToText());
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
