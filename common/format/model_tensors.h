// SPDX-License-Identifier: Apache-2.0
// The tensors of a model in a checkpoint: found, checked and read the same way by every reader.
#ifndef ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_
#define ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_

#include <span>

#include "common/base/status.h"
#include "common/format/safetensors.h"
#include "common/plan/model_layout.h"

namespace atl {

// Every tensor of `layout` must be in exactly one file, in its shape, and in a dtype that is read. What else the
// checkpoint holds does not matter. transformers writes the names of a model without its head without the prefix
// "model.", and those of a model inside another with one more: both are found. The message names tensor, file and
// cause.
absl::Status CheckModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout);

// The same, and reads every value into its place in `arena`, which has layout.elements. All must be finite.
absl::Status ReadModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout, std::span<float> arena);

// The same without keeping the values: memory for a few megabytes.
absl::Status CheckModelValues(const SafetensorsReader& checkpoint, const ModelLayout& layout);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_
