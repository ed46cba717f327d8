// SPDX-License-Identifier: Apache-2.0
// Checks the weights of model.init.directory before anything is stored. Afterwards files are known
// only by their hashes, and an error could not name them.
#ifndef ATOLL_CLI_STAGE_WEIGHTS_H_
#define ATOLL_CLI_STAGE_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/safetensors.h"
#include "common/plan/job_spec.h"

namespace atl::cli {

// Opens the weights of a Hugging Face directory, in at most limits::kInitialFiles files; `notes`
// receives weight files that are ignored. The error message continues a sentence that begins with
// the key's name.
absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenWeights(const Files& files, const std::string& directory,
                                                               std::vector<std::string>& notes);

// Reads every value that `model` (resolved) needs; all must be finite. The error message continues
// a sentence that begins with the key's name.
absl::Status CheckWeights(const SafetensorsReader& reader, const ModelSpec& model);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_WEIGHTS_H_
