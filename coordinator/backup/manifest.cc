// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/manifest.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atl::backup {
namespace {

constexpr char kFirstLine[] = "# atoll backup, format revision 1";
constexpr char kFrom[] = "# from ";
constexpr char kMade[] = "# made ";
constexpr char kHolds[] = "# holds ";
constexpr size_t kHexDigits = 64;

bool EndsWith(const std::string& text, const char* end) { return text.ends_with(end); }

constexpr int kDeepest = 16;  // the formats have six levels

// The files below `root`/`path`, in any order. Files removed meanwhile are left out.
absl::Status ListBelow(const std::string& root, const std::string& path, int depth, std::vector<std::string>& out) {
  namespace fs = std::filesystem;
  if (depth == 0)
    return absl::UnavailableError(
        absl::StrCat(JoinPath(root, path), " is deeper than any file of a state directory; remove it"));
  std::error_code error;
  fs::directory_iterator at(JoinPath(root, path), error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = JoinPath(path, at->path().filename().string());
    std::error_code gone;
    if (at->is_directory(gone)) {
      ATOLL_RETURN_IF_ERROR(ListBelow(root, name, depth - 1, out));
    } else if (IsStateFile(name)) {
      out.push_back(name);
    }
  }
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the files below ", JoinPath(root, path), " cannot be listed: ", error.message()));
}

// The rest of `line` after `start`; DataLoss if it does not begin with it.
absl::StatusOr<std::string> After(const std::string& line, const std::string& start, size_t number) {
  if (line.starts_with(start)) return line.substr(start.size());
  return absl::DataLossError(
      absl::StrCat("line ", number, " of ", kManifestName, " does not begin with '", start, "'; use another backup"));
}

absl::Status ParseEntry(const std::string& line, size_t number, Manifest& out) {
  Sha256 hash;
  const bool whole = line.size() > kHexDigits + 2 && line.substr(kHexDigits, 2) == "  " &&
                     Sha256::FromHex(line.substr(0, kHexDigits), hash) && IsStateFile(line.substr(kHexDigits + 2));
  if (!whole || !out.files.emplace(line.substr(kHexDigits + 2), hash).second) {
    return absl::DataLossError(absl::StrCat("line ", number, " of ", kManifestName,
                                            " is not a SHA-256 and the path of a state file; use another backup"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsStateFile(const std::string& path) {
  if (path == "ledger.sqlite" || path == "ledger.sqlite-wal") return true;
  if (!path.starts_with("jobs/") && !path.starts_with("blobs/") && !path.starts_with("events/")) return false;
  if (EndsWith(path, ".tmp") || EndsWith(path, ".part") || EndsWith(path, "/")) return false;
  if (std::any_of(path.begin(), path.end(), [](char c) { return c == '\n' || c == '\\' || c == '\0'; })) return false;
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

bool MayBeLinked(const std::string& path) { return EndsWith(path, ".snap"); }

absl::StatusOr<std::vector<std::string>> ListStateFiles(const std::string& root) {
  std::vector<std::string> paths;
  for (const char* part : {"jobs", "blobs", "events"}) ATOLL_RETURN_IF_ERROR(ListBelow(root, part, kDeepest, paths));
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string ToText(const Manifest& manifest) {
  std::string from = manifest.state_dir;
  std::replace(from.begin(), from.end(), '\n', ' ');
  std::string text = absl::StrCat(kFirstLine, "\n", kFrom, from, "\n", kMade, manifest.wall_s, "\n", kHolds,
                                  manifest.files.size(), " files, ", manifest.bytes, " bytes\n");
  for (const auto& [path, hash] : manifest.files) absl::StrAppend(&text, hash.Hex(), "  ", path, "\n");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.front() != kFirstLine) {
    return absl::FailedPreconditionError(
        absl::StrCat("its file ", kManifestName, " does not begin with '", kFirstLine,
                     "': it is not a backup, or was written by another version of this program, which can restore it"));
  }
  lines.resize(std::max<size_t>(lines.size(), 5));
  Manifest out;
  ATOLL_ASSIGN_OR_RETURN(out.state_dir, After(lines[1], kFrom, 2));
  ATOLL_ASSIGN_OR_RETURN(const std::string made, After(lines[2], kMade, 3));
  ATOLL_ASSIGN_OR_RETURN(const std::string holds, After(lines[3], kHolds, 4));
  const std::vector<std::string> words = absl::StrSplit(holds, ' ');
  uint64_t count = 0;
  const bool numbers = absl::SimpleAtoi(made, &out.wall_s) && words.size() == 4 && absl::SimpleAtoi(words[0], &count) &&
                       absl::SimpleAtoi(words[2], &out.bytes);
  for (size_t i = 4; i + 1 < lines.size(); ++i) ATOLL_RETURN_IF_ERROR(ParseEntry(lines[i], i + 1, out));
  if (!numbers || !lines.back().empty() || count != out.files.size() || !out.files.contains("ledger.sqlite")) {
    return absl::DataLossError(absl::StrCat(
        "its file ", kManifestName,
        " lists a wrong number of files or no ledger: it is truncated or was changed; use another backup"));
  }
  if (ToText(out) != text) {
    return absl::DataLossError(
        absl::StrCat("its file ", kManifestName, " has a wrong checksum: it was changed; use another backup"));
  }
  return out;
}

}  // namespace atl::backup
