// SPDX-License-Identifier: Apache-2.0
#include "common/format/checkpoint_files.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/str_format.h"
#include "common/format/json_object.h"
#include "common/format/safetensors.h"

namespace atl {
namespace {

constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kEnding[] = ".safetensors";
constexpr size_t kIndexDepth = 8;

// An index may name only files in its own directory.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name[0] != '.';
}

absl::StatusOr<std::map<std::string, std::string>> ParseWeightMap(const std::string& text) {
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, kIndexDepth));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return absl::InvalidArgumentError("weight_map is missing");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& item : root["weight_map"].items()) {
    if (!item.value().is_string() || !IsPlainName(item.value().get<std::string>())) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight_map.", item.key(), " must name a file in the same directory"));
    }
    weight_map[item.key()] = item.value().get<std::string>();
  }
  if (weight_map.empty()) return absl::InvalidArgumentError("weight_map names no file");
  if (weight_map.size() > kSafetensorsTensors) {
    return absl::InvalidArgumentError(absl::StrCat("it names more than ", kSafetensorsTensors, " tensors"));
  }
  return weight_map;
}

absl::StatusOr<CheckpointFiles> ReadIndex(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kSafetensorsHeaderBytes));
  const auto weight_map = ParseWeightMap(text);
  if (!weight_map.ok()) return Annotate(weight_map.status(), path);
  CheckpointFiles found;
  found.index_path = path;
  std::set<std::string> paths;
  for (const auto& [tensor, file] : *weight_map) {
    paths.insert(found.placed[tensor] = JoinPath(DirectoryOf(path), file));
  }
  for (const std::string& named : paths) {
    if (files.Exists(named)) continue;
    return absl::NotFoundError(absl::StrCat(path, " names ", named.substr(named.rfind('/') + 1),
                                            ", which is missing in the same directory; copy it too"));
  }
  found.paths.assign(paths.begin(), paths.end());
  return found;
}

// Without an index, only the names of a set, NAME-00001-of-00003.safetensors, show that files are
// missing.
absl::Status CheckNumbered(const std::string& directory, const std::vector<std::string>& names) {
  std::map<std::pair<std::string, unsigned>, std::set<unsigned>> sets;  // name prefix, size -> numbers
  for (const std::string& name : names) {
    const size_t dash = name.rfind("-of-");
    const size_t before = dash == std::string::npos || dash == 0 ? std::string::npos : name.rfind('-', dash - 1);
    unsigned number = 0, size = 0;
    if (before == std::string::npos) continue;
    if (std::sscanf(name.c_str() + before, "-%5u-of-%5u.safetensors", &number, &size) != 2) continue;
    sets[{name.substr(0, before), size}].insert(number);
  }
  if (sets.size() != 1) return absl::OkStatus();
  const auto& [set, numbers] = *sets.begin();
  for (unsigned i = 1; i <= set.second; ++i) {
    if (numbers.count(i) != 0) continue;
    return absl::NotFoundError(absl::StrCat(directory, " has no ",
                                            absl::StrFormat("%s-%05d-of-%05d", set.first, i, set.second), kEnding,
                                            ", and others of that set; copy it too"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFiles> ReadDirectory(const Files& files, const std::string& directory) {
  if (!files.Exists(directory)) return absl::NotFoundError(absl::StrCat(directory, " does not exist"));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> weights;
  for (const std::string& name : names) {
    const bool is_hidden = name.starts_with('.');  // macOS copies "model.safetensors" with a "._model.safetensors"
    if (!is_hidden && name.size() > sizeof(kEnding) - 1 && name.ends_with(kEnding)) weights.push_back(name);
  }
  CheckpointFiles found;
  if (std::find(names.begin(), names.end(), kIndexName) != names.end()) {
    ATOLL_ASSIGN_OR_RETURN(found, ReadIndex(files, JoinPath(directory, kIndexName)));
  } else if (std::find(weights.begin(), weights.end(), kSingleName) != weights.end()) {
    found.paths.push_back(JoinPath(directory, kSingleName));
  } else {
    if (weights.empty()) {
      const bool is_pickled = std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with("pytorch_model") && name.ends_with(".bin");
      });
      return absl::NotFoundError(
          absl::StrCat(directory, " holds no .safetensors file",
                       is_pickled ? ", and pytorch_model files are not read: load the model and call save_pretrained()"
                                  : "; give a directory with config.json and .safetensors files"));
    }
    ATOLL_RETURN_IF_ERROR(CheckNumbered(directory, weights));
    for (const std::string& name : weights) found.paths.push_back(JoinPath(directory, name));
  }
  for (const std::string& name : weights) {
    const bool is_read =
        std::find(found.paths.begin(), found.paths.end(), JoinPath(directory, name)) != found.paths.end();
    if (!is_read) found.ignored.push_back(name);
  }
  return found;
}

}  // namespace

absl::StatusOr<CheckpointFiles> FindCheckpointFiles(const Files& files, const std::string& path) {
  if (path.ends_with(".json")) return ReadIndex(files, path);
  if (!path.ends_with(kEnding)) return ReadDirectory(files, path);
  CheckpointFiles found;
  found.paths.push_back(path);
  return found;
}

}  // namespace atl
