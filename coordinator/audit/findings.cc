// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/findings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace atl::audit {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Finding& finding) {
  std::string line = finding.file;
  if (finding.offset) absl::StrAppend(&line, line.empty() ? "" : " ", "at offset ", *finding.offset);
  if (line.empty()) line = finding.job.empty() ? "state" : absl::StrCat("job ", finding.job);
  absl::StrAppend(&line, ": ", finding.problem);
  if (!finding.way_out.empty()) absl::StrAppend(&line, "; ", finding.way_out);
  return line;
}

void AppendLines(const char* title, const std::vector<Finding>& findings, uint64_t seen, std::string& text) {
  for (const Finding& finding : findings) absl::StrAppend(&text, title, ": ", Line(finding), "\n");
  if (seen > findings.size()) absl::StrAppend(&text, title, ": and ", seen - findings.size(), " more\n");
}

Json ToJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json entry;
    entry["file"] = finding.file;
    entry["offset"] = finding.offset ? Json(*finding.offset) : Json(nullptr);
    entry["job"] = finding.job;
    entry["problem"] = finding.problem;
    entry["way_out"] = finding.way_out;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

const char kRestoreFile[] = "put this file back from a backup of the state directory";
const char kRestoreState[] = "put the whole state directory back from a backup";
const char kNewerProgram[] = "use the program of the version that wrote it";

void Report::Damage(Finding finding) {
  if (++damages_ <= kKept) damage_.push_back(std::move(finding));
}

void Report::Note(Finding finding) {
  if (++notes_seen_ <= kKept) notes_.push_back(std::move(finding));
}

uint64_t Report::count(const std::string& what) const {
  const auto it = counts_.find(what);
  return it == counts_.end() ? 0 : it->second;
}

std::string Report::Text() const {
  std::string text = absl::StrCat(command_, " of ", state_dir_, "\n");
  for (const auto& [what, count] : counts_) absl::StrAppend(&text, "  ", what, ": ", count, "\n");
  AppendLines("note", notes_, notes_seen_, text);
  AppendLines("damage", damage_, damages_, text);
  absl::StrAppend(&text, ok() ? "all is well" : absl::StrCat("findings: ", damages_), "\n");
  return text;
}

std::string Report::Json() const {
  nlohmann::ordered_json out;
  out["command"] = command_;
  out["state_dir"] = state_dir_;
  out["ok"] = ok();
  out["counts"] = counts_;
  out["damages"] = damages_;
  out["damage"] = ToJson(damage_);
  out["notes"] = ToJson(notes_);
  // The content of a damaged file may be invalid UTF-8.
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace atl::audit
