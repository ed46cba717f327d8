// SPDX-License-Identifier: Apache-2.0
// The Hugging Face directory of a Llama: config.json, generation_config.json, safetensors (split
// above a size) and tokenizer files (docs/formats/huggingface.md). ModelLayout already uses Hugging
// Face's tensor names, and rotary embeddings are rotate-half, so an export renames and permutes
// nothing.
#ifndef ATOLL_COMMON_FORMAT_HUGGINGFACE_H_
#define ATOLL_COMMON_FORMAT_HUGGINGFACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/number_formats.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"

namespace atl {

// The contents of config.json.
struct HuggingFaceConfig {
  ModelSpec model;                        // resolved: no zero sizes
  uint32_t max_positions = 2048;          // max_position_embeddings: the longest sequence trained on
  NumberType weights = NumberType::kF32;  // type of the tensors on disk
  std::optional<uint32_t> bos_id, eos_id;
};

// Returns the text of config.json: LlamaForCausalLM, or Qwen3ForCausalLM with qk_norm; with both rope_theta
// and rope_parameters, torch_dtype and dtype, so that transformers 4 and 5 can read it.
std::string HuggingFaceConfigJson(const HuggingFaceConfig& config);
std::string GenerationConfigJson(const HuggingFaceConfig& config);

// Parses config.json of a llama or qwen3 model. InvalidArgument names the key; another model_type or
// activation, biases, rope scaling, or inconsistent sizes are refused. Training parameters (init_std,
// precision) keep their defaults.
absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(const std::string& json);

// Fills `out` with elements [begin, begin + out.size()) of tensor `index` in
// WriteHuggingFaceDirectory's `tensors`. Called in order, once for every element.
using TensorSource = std::function<absl::Status(size_t index, uint64_t begin, std::span<float> out)>;

struct HuggingFaceWriteOptions {
  uint64_t shard_bytes = uint64_t{5} << 30;     // above this size a new file begins; a tensor is never split
  uint64_t chunk_elements = uint64_t{1} << 20;  // elements requested at once; determines the memory
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// Writes the directory (created if missing): weights first, then index, configs and
// `tokenizer_files` (name -> content), config.json last; each file atomically. Writes
// model.safetensors if everything fits in one file, otherwise model-0000i-of-0000n.safetensors with
// model.safetensors.index.json. AlreadyExists when the directory is not empty. InvalidArgument when
// a tokenizer file's name fails IsTokenizerFileName; nothing is then written.
absl::Status WriteHuggingFaceDirectory(Files& files, const std::string& directory, const HuggingFaceConfig& config,
                                       const std::vector<TensorInfo>& tensors,
                                       const std::map<std::string, std::string>& tokenizer_files,
                                       const TensorSource& source, const HuggingFaceWriteOptions& options = {});

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_HUGGINGFACE_H_
