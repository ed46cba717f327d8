// The weights of model.init.directory, checked before anything is stored: afterwards a file is known by its hash only,
// and no refusal could name it.
#ifndef ATOLL_CLI_STAGE_WEIGHTS_H_
#define ATOLL_CLI_STAGE_WEIGHTS_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl::cli {

// The .safetensors files of a Hugging Face directory by full path: model.safetensors, or all that there are, at most
// limits::kInitialFiles. The message of a refusal reads on after the name of the key.
absl::StatusOr<std::vector<std::string>> FindWeights(const Files& files, const std::string& directory);

// Reads every value of `paths`. With `model` (resolved) they must hold each of its tensors in its shape, finite. The
// message of a refusal names the file and what to do.
absl::Status CheckWeights(const Files& files, const std::vector<std::string>& paths, const ModelSpec* model);

}  // namespace atl::cli

#endif  // ATOLL_CLI_STAGE_WEIGHTS_H_
