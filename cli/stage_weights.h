// SPDX-License-Identifier: Apache-2.0
// The weights of model.init.directory, checked before anything is stored: afterwards a file is known by its hash only,
// and no refusal could name it.
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

// The weights of a Hugging Face directory, in at most limits::kInitialFiles files; `notes` gets those beside them that
// are not read. The message of a refusal reads on after the name of the key.
absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenWeights(const Files& files, const std::string& directory,
                                                               std::vector<std::string>& notes);

// Reads every value that `model` (resolved) needs; all must be finite. The message reads on after the name of the key.
absl::Status CheckWeights(const SafetensorsReader& reader, const ModelSpec& model);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_WEIGHTS_H_
