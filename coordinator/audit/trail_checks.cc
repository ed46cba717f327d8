// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/trail_checks.h"

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"

namespace atl::audit {
namespace {

constexpr char kBegin[] = "{\"previous\":\"";
constexpr size_t kBeginBytes = sizeof kBegin - 1, kHexDigits = 64, kNumberDigits = 10;
constexpr uint64_t kKeptFiles = 8;
constexpr char kWayOut[] =
    "somebody or something changed it: compare it with the coordinator's own log, and put the file back from a backup";

// The files by number.
absl::StatusOr<std::map<uint64_t, std::string>> TrailFiles(const Files& files, const std::string& directory,
                                                           Report& report) {
  std::map<uint64_t, std::string> out;
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    const bool named = name.size() == kNumberDigits + 6 && name.ends_with(".jsonl") &&
                       name.find_first_not_of("0123456789") == kNumberDigits;
    if (named) {
      out[std::stoull(name.substr(0, kNumberDigits))] = JoinPath(directory, name);
    } else {
      report.Note({JoinPath(directory, name), std::nullopt, "", "a name that the format does not have",
                   "nothing reads it; look whether it belongs here"});
    }
  }
  return out;
}

class Chain {
 public:
  explicit Chain(Report& report) : report_(report) {}
  // Lines before the next one are missing: it need not hold the hash of the last line read.
  void Unknown() { known_ = false; }

  void Read(const std::string& path, const std::string& text, bool newest) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      if (end == std::string::npos) {
        if (newest)
          return report_.Note({path, at, "", "a line was not written to its end", "the next start cuts it off"});
        return report_.Damage({path, at, "", "the file ends within a line", kWayOut});
      }
      if (!Take(std::string_view(text).substr(at, end - at)))
        report_.Damage({path, at, "", "a line of the audit log does not follow the one before it", kWayOut});
      at = end + 1;
    }
  }

 private:
  bool Take(std::string_view line) {
    report_.Count("audit lines");
    Sha256 told;
    const bool whole = line.starts_with(kBegin) && line.ends_with("}") && line.size() > kBeginBytes + kHexDigits &&
                       Sha256::FromHex(std::string(line.substr(kBeginBytes, kHexDigits)), told);
    const bool follows = whole && (!known_ || told == previous_);
    previous_ = Sha256Of(AsBytes(std::string(line)));
    known_ = true;
    return follows;
  }

  Report& report_;
  Sha256 previous_;  // zeros before the first line
  bool known_ = true;
};

}  // namespace

void CheckTrail(const Files& files, const std::string& root, Report& report) {
  const std::string directory = JoinPath(root, "events/audit");
  const auto found = TrailFiles(files, directory, report);
  if (!found.ok()) return report.Damage({directory, std::nullopt, "", std::string(found.status().message()), kWayOut});
  Chain chain(report);
  if (!found->empty() && found->begin()->first > 0) {
    chain.Unknown();
    if (found->size() < kKeptFiles)
      report.Damage({directory, std::nullopt, "",
                     absl::StrCat("the audit log begins with file ", found->begin()->first, " and has ", found->size(),
                                  " files: older ones are missing"),
                     kWayOut});
  }
  uint64_t next = found->empty() ? 0 : found->begin()->first;
  for (const auto& [number, path] : *found) {
    if (number != next) {
      report.Damage(
          {directory, std::nullopt, "", absl::StrCat("file ", next, " of the audit log is missing"), kWayOut});
      chain.Unknown();
    }
    next = number + 1;
    const absl::StatusOr<std::string> text = ReadWholeFile(files, path, UINT64_MAX);
    if (!text.ok()) {
      report.Damage({path, std::nullopt, "", std::string(text.status().message()), kRestoreFile});
      chain.Unknown();
      continue;
    }
    chain.Read(path, *text, number == found->rbegin()->first);
  }
}

}  // namespace atl::audit
