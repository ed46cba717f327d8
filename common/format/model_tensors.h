// SPDX-License-Identifier: Apache-2.0
// Finds, checks and reads a model's tensors in a checkpoint, in the same way for all readers.
#ifndef ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_
#define ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_

#include <functional>
#include <span>

#include "common/base/status.h"
#include "common/format/safetensors.h"
#include "common/plan/model_layout.h"

namespace atl {

// Every tensor of `layout` must be in exactly one file, with its shape and a supported dtype. Other
// content of the checkpoint is ignored. transformers omits the prefix "model." for a model without its head, and adds
// another "model." for a model inside another; both forms are found. Missing: NotFound; otherwise InvalidArgument.
// The error names tensor, file and cause.
absl::Status CheckModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout);

// CheckModelTensors, then reads every value into its place in `arena`, which has layout.elements elements. All values
// must be finite. Calls `go_on`, if given, before each tensor, and returns Cancelled when it returns false.
absl::Status ReadModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout, std::span<float> arena,
                              const std::function<bool()>& go_on = nullptr);

// CheckModelTensors, then checks that all values are finite, with a few megabytes of memory.
absl::Status CheckModelValues(const SafetensorsReader& checkpoint, const ModelLayout& layout);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_MODEL_TENSORS_H_
