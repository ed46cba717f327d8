// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/event_log.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/plan/limits.h"

namespace atl {
namespace {

// Job names contain no underscore, so no job can use this file name.
constexpr char kFleetFile[] = "_fleet";

using Json = nlohmann::ordered_json;

constexpr uint64_t kLineBytes = 256 * 1024;  // longer lines are skipped as foreign
constexpr size_t kOpenFiles = 32;            // open at once
constexpr uint64_t kPieceBytes = 64 * 1024;  // size of one read

Json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double NumberFrom(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  return text == "inf" ? INFINITY : text == "-inf" ? -INFINITY : NAN;
}

class FileEventLog final : public EventLog {
 public:
  FileEventLog(Files& files, EventLogOptions options) : files_(files), options_(std::move(options)) {}

  absl::Status Append(const LoggedEvent& event) override {
    if (open_.size() >= kOpenFiles && !open_.contains(event.job)) open_.clear();  // most of them belong to ended jobs
    std::unique_ptr<File>& file = open_[event.job];
    if (file == nullptr) {
      auto opened = files_.OpenForAppend(PathOf(event.job));
      absl::Status ended = opened.ok() ? EndTornLine(**opened) : opened.status();
      if (!ended.ok()) {
        open_.erase(event.job);
        return ended;
      }
      file = *std::move(opened);
    }
    ATOLL_ASSIGN_OR_RETURN(const uint64_t before, file->Size());
    const std::string line = EventToJson(event) + "\n";
    absl::Status appended = file->Append(AsBytes(line));
    if (!appended.ok()) {
      (void)file->Truncate(before);  // best effort: readers skip a torn line
      return appended;
    }
    if (before + line.size() >= options_.rotate_bytes) return Rotate(event.job);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Read(const JobId& job, const std::function<void(LoggedEvent)>& visit) const override {
    uint64_t skipped = 0;
    for (uint32_t i = options_.keep_rotated; i > 0; --i) {
      ATOLL_RETURN_IF_ERROR(ReadFile(absl::StrCat(PathOf(job), ".", i), visit, skipped));
    }
    ATOLL_RETURN_IF_ERROR(ReadFile(PathOf(job), visit, skipped));
    return skipped;
  }

  absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t most_bytes,
                               const std::function<void(LoggedEvent)>& visit) const override {
    std::vector<std::pair<std::string, uint64_t>> parts;  // start of each file, newest first
    uint64_t left = most_bytes;
    bool all = true;
    for (uint32_t i = 0; i <= options_.keep_rotated && all; ++i) {
      const std::string path = i == 0 ? PathOf(job) : absl::StrCat(PathOf(job), ".", i);
      if (!files_.Exists(path)) continue;
      ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_.OpenForRead(path));
      ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
      all = size <= left;
      parts.emplace_back(path, size - std::min(size, left));
      left -= std::min(size, left);
    }
    uint64_t skipped = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      ATOLL_RETURN_IF_ERROR(ReadFile(part->first, visit, skipped, part->second));
    return all;
  }

  absl::Status Sync() override {
    for (const auto& [job, file] : open_) ATOLL_RETURN_IF_ERROR(file->Sync());
    return absl::OkStatus();
  }

 private:
  std::string PathOf(const JobId& job) const {
    return JoinPath(options_.directory, absl::StrCat(job.value.empty() ? kFleetFile : job.value.c_str(), ".jsonl"));
  }

  // A crash may leave a partial line; the next line must not be appended to it.
  static absl::Status EndTornLine(File& file) {
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
    if (size == 0) return absl::OkStatus();
    std::byte last{};
    ATOLL_RETURN_IF_ERROR(file.ReadAt(size - 1, std::span(&last, 1)));
    return last == std::byte{'\n'} ? absl::OkStatus() : file.Append(AsBytes(std::string("\n")));
  }

  absl::Status Rotate(const JobId& job) {
    open_.erase(job);
    const std::string path = PathOf(job);
    ATOLL_RETURN_IF_ERROR(files_.Remove(absl::StrCat(path, ".", options_.keep_rotated)));
    for (uint32_t i = options_.keep_rotated; i > 1; --i) {
      const std::string from = absl::StrCat(path, ".", i - 1);
      if (files_.Exists(from)) ATOLL_RETURN_IF_ERROR(files_.Rename(from, absl::StrCat(path, ".", i)));
    }
    return files_.Rename(path, absl::StrCat(path, ".1"));
  }

  // Reads in pieces, because a start reads all stored events of unfinished jobs. Skips a line that
  // begins before `begin`.
  absl::Status ReadFile(const std::string& path, const std::function<void(LoggedEvent)>& visit, uint64_t& skipped,
                        uint64_t begin = 0) const {
    if (!files_.Exists(path)) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_.OpenForRead(path));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    std::string line, piece;
    bool cut = begin > 0;
    for (uint64_t at = begin - (cut ? 1 : 0); at < size; at += piece.size()) {
      piece.resize(std::min(kPieceBytes, size - at));
      ATOLL_RETURN_IF_ERROR(file->ReadAt(at, std::as_writable_bytes(std::span(piece.data(), piece.size()))));
      size_t from = 0;
      for (size_t end; (end = piece.find('\n', from)) != std::string::npos; from = end + 1) {
        line.append(piece, from, end - from);
        if (!std::exchange(cut, false)) Tell(line, visit, skipped);
        line.clear();
      }
      // Keeps only as much of an overlong line as is needed to recognise it.
      line.append(piece, from,
                  std::min<size_t>(piece.size() - from, kLineBytes + 1 - std::min<size_t>(line.size(), kLineBytes)));
    }
    if (!line.empty() && !cut) Tell(line, visit, skipped);
    return absl::OkStatus();
  }

  static void Tell(const std::string& line, const std::function<void(LoggedEvent)>& visit, uint64_t& skipped) {
    absl::StatusOr<LoggedEvent> event = EventFromJson(line);
    if (event.ok()) {
      visit(*std::move(event));
    } else {
      ++skipped;
    }
  }

  Files& files_;
  const EventLogOptions options_;
  std::map<JobId, std::unique_ptr<File>> open_;
};

// Reads the field "transfers", which is missing when nothing was transferred. Returns false for any form that
// EventToJson does not write.
bool ReadTransfers(const Json& json, std::vector<LoggedTransfer>& transfers) {
  if (!json.contains("transfers")) return true;
  if (!json["transfers"].is_array()) return false;
  for (const Json& of : json["transfers"]) {
    const auto count = [&of](const char* key) { return of.contains(key) && of[key].is_number_unsigned(); };
    if (!of.is_object() || !of.contains("worker") || !of["worker"].is_string() || !count("uploaded_bytes") ||
        !count("downloaded_bytes")) {
      return false;
    }
    transfers.push_back({WorkerId{of["worker"]}, of["uploaded_bytes"], of["downloaded_bytes"]});
  }
  return true;
}

}  // namespace

std::string EventToJson(const LoggedEvent& event) {
  Json json;
  json["job"] = event.job.value;
  json["revision"] = event.revision;
  json["time_ns"] = event.wall_nanos;
  json["kind"] = event.kind;
  json["text"] = event.text;
  json["fields"] = Json::object();
  for (const auto& [key, value] : event.fields) json["fields"][key] = value;
  json["points"] = Json::array();
  for (const LoggedPoint& point : event.points) {
    json["points"].push_back({{"curve", point.curve}, {"step", point.step}, {"value", Number(point.value)}});
  }
  for (const LoggedTransfer& of : event.transfers) {
    json["transfers"].push_back({{"worker", of.worker.value},
                                 {"uploaded_bytes", of.uploaded_bytes},
                                 {"downloaded_bytes", of.downloaded_bytes}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<LoggedEvent> EventFromJson(const std::string& line) {
  const Json json = line.size() > kLineBytes ? Json() : Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto bad = absl::InvalidArgumentError("the line is not an event");
  if (!json.is_object()) return bad;
  const auto is = [&json](const char* key, auto check) { return json.contains(key) && check(json[key]); };
  const auto text = [](const Json& j) { return j.is_string(); };
  const auto number = [](const Json& j) { return j.is_number_integer(); };
  if (!is("job", text) || !is("revision", number) || !is("time_ns", number) || !is("kind", text) || !is("text", text) ||
      !is("fields", [](const Json& j) { return j.is_object(); }) ||
      !is("points", [](const Json& j) { return j.is_array(); })) {
    return bad;
  }
  LoggedEvent event{JobId{json["job"]}, json["revision"], json["time_ns"], json["kind"], json["text"], {}, {}, {}};
  for (const auto& [key, value] : json["fields"].items()) {
    if (!value.is_string()) return bad;
    event.fields[key] = value;
  }
  for (const Json& point : json["points"]) {
    if (!point.is_object() || !point.contains("curve") || !point["curve"].is_string() || !point.contains("step") ||
        !point["step"].is_number_unsigned() || !point.contains("value") ||
        !(point["value"].is_number() || point["value"].is_string())) {
      return bad;
    }
    event.points.push_back({point["curve"], point["step"], NumberFrom(point["value"])});
  }
  if (!ReadTransfers(json, event.transfers)) return bad;
  return event;
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(Files& files, const EventLogOptions& options) {
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(options.directory));
  return std::make_unique<FileEventLog>(files, options);
}

}  // namespace atl
