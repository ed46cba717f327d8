// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_copy.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

// Size of the first file of this name in the directories; 0 when it is unreadable, nullopt when there is none.
std::optional<uint64_t> SizeOf(const Files& files, const std::vector<std::string>& directories,
                               const std::string& name) {
  for (const std::string& directory : directories) {
    const std::string path = JoinPath(directory, name);
    if (!files.Exists(path)) continue;
    const auto file = files.OpenForRead(path);
    if (!file.ok()) return 0;
    const auto size = (*file)->Size();
    return size.ok() ? *size : 0;
  }
  return std::nullopt;
}

bool IsManifestOf(const Files& files, const std::string& directory, const Sha256& manifest) {
  const auto text = ReadWholeFile(files, JoinPath(directory, kManifestName), limits::kManifestBytes);
  return text.ok() && Sha256Of(AsBytes(*text)) == manifest;
}

}  // namespace

CorpusCopy CheckCorpusCopy(const Files& files, const std::vector<std::string>& directories,
                           const CorpusManifest& manifest) {
  CorpusCopy copy;
  size_t there = 0, faults = 0;
  for (const CorpusFile& file : manifest.files) {
    const std::optional<uint64_t> bytes = SizeOf(files, directories, file.name);
    there += bytes.has_value() ? 1 : 0;
    if (bytes == file.bytes || faults++ > 0) continue;
    copy.problem = absl::StrCat("shard ", file.name, " is missing");
    if (!bytes.has_value()) continue;
    copy.problem = absl::StrCat("shard ", file.name, " has ", *bytes, " bytes, but its manifest has ", file.bytes);
  }
  if (faults > 1)
    absl::StrAppend(&copy.problem, ", and ", faults - 1, " more of ", manifest.files.size(), " are incomplete");
  copy.state = faults == 0 ? CorpusCopyState::kWhole : there == 0 ? CorpusCopyState::kAbsent : CorpusCopyState::kBroken;
  return copy;
}

std::vector<std::string> CorpusDirectories(const std::string& data_root, const std::string& name) {
  return {JoinPath(data_root, name), data_root};
}

CorpusCopy LookBelowDataRoot(const Files& files, const std::string& data_root, const CorpusManifest& manifest,
                             const Sha256& sha256) {
  const std::vector<std::string> places = CorpusDirectories(data_root, manifest.name);
  CorpusCopy copy = CheckCorpusCopy(files, places, manifest);
  if (copy.state == CorpusCopyState::kWhole) return copy;
  const bool meant = IsManifestOf(files, places[0], sha256) || IsManifestOf(files, places[1], sha256) ||
                     CheckCorpusCopy(files, {places[0]}, manifest).state != CorpusCopyState::kAbsent;
  copy.state = meant ? CorpusCopyState::kBroken : CorpusCopyState::kAbsent;
  return copy;
}

}  // namespace atl
