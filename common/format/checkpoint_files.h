// SPDX-License-Identifier: Apache-2.0
// Finds the weight files of a Hugging Face directory, by one rule for all readers.
#ifndef ATOLL_COMMON_FORMAT_CHECKPOINT_FILES_H_
#define ATOLL_COMMON_FORMAT_CHECKPOINT_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

struct CheckpointFiles {
  std::vector<std::string> paths;             // .safetensors files, ordered by name; at least one
  std::string index_path;                     // empty without an index
  std::map<std::string, std::string> placed;  // tensor -> path, from the index
  std::vector<std::string> ignored;           // names of other .safetensors files in the directory
};

// `path` is a .safetensors file, an index .json, or a directory. In a directory:
// 1. with model.safetensors.index.json the files that it names, and no others;
// 2. else model.safetensors alone;
// 3. else all .safetensors files with names that do not begin with '.'.
// NotFound: no directory, no such files, or a file of the index or of the only numbered set (-of-00003) is missing.
// InvalidArgument: the index is no index, or names a file outside its directory (any name with '/').
absl::StatusOr<CheckpointFiles> FindCheckpointFiles(const Files& files, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CHECKPOINT_FILES_H_
