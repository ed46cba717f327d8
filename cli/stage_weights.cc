// SPDX-License-Identifier: Apache-2.0
#include "cli/stage_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/format/model_tensors.h"
#include "common/plan/limits.h"

namespace atl::cli {
namespace {

constexpr size_t kNamesShown = 3;

std::string NoteOf(const CheckpointFiles& found) {
  const std::string read =
      found.index_path.empty() ? found.paths.front() : absl::StrCat("the files that ", found.index_path, " names");
  std::string names;
  for (size_t i = 0; i < std::min(found.ignored.size(), kNamesShown); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", found.ignored[i]);
  }
  const size_t more = found.ignored.size() - std::min(found.ignored.size(), kNamesShown);
  if (more > 0) absl::StrAppend(&names, " and ", more, " more");
  return absl::StrCat("model.init.directory: weights are read from ", read, ", not from ", names);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenWeights(const Files& files, const std::string& directory,
                                                               std::vector<std::string>& notes) {
  if (!files.Exists(directory)) {
    return absl::NotFoundError(absl::StrCat("names ", directory, ", which does not exist; give a directory with ",
                                            "config.json and .safetensors files"));
  }
  const absl::StatusOr<CheckpointFiles> found = FindCheckpointFiles(files, directory);
  if (!found.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", found.status().message()));
  }
  if (found->paths.size() > limits::kInitialFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("names a directory with more than ", limits::kInitialFiles, " .safetensors files"));
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(files, *found);
  if (!reader.ok()) return absl::InvalidArgumentError(absl::StrCat("cannot be used: ", reader.status().message()));
  if (!found->ignored.empty()) notes.push_back(NoteOf(*found));
  return reader;
}

absl::Status CheckWeights(const SafetensorsReader& reader, const ModelSpec& model) {
  absl::Status good = CheckModelValues(reader, MakeModelLayout(model, FragmentPattern::kWhole, 1));
  if (good.ok()) return good;
  return absl::InvalidArgumentError(absl::StrCat("cannot be used: ", good.message()));
}

}  // namespace atl::cli
