// SPDX-License-Identifier: Apache-2.0
#include "common/format/model_tensors.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_join.h"

namespace atl {
namespace {

constexpr std::string_view kPrefix = "model.";
constexpr uint64_t kChunkElements = uint64_t{1} << 20;
constexpr char kOneModel[] = "; config.json and the weights must belong to one model";

// Returns the checkpoint's name of a tensor; empty when it is missing.
std::string StoredName(const SafetensorsReader& checkpoint, const std::string& name) {
  if (checkpoint.Find(name) != nullptr) return name;
  if (name.starts_with(kPrefix)) {
    std::string bare = name.substr(kPrefix.size());
    if (checkpoint.Find(bare) != nullptr) return bare;
  }
  std::string longer = std::string(kPrefix) + name;
  return checkpoint.Find(longer) != nullptr ? longer : "";
}

// Why a checkpoint lacks a tensor, and the remedy.
std::string WhyMissing(const SafetensorsReader& checkpoint) {
  static constexpr std::array<std::array<const char*, 3>, 3> kWrapped = {{
      {"_orig_mod.", "saved from inside torch.compile", "model._orig_mod.save_pretrained(DIRECTORY)"},
      {"module.", "saved from inside DistributedDataParallel", "model.module.save_pretrained(DIRECTORY)"},
      {"base_model.model.", "a PEFT model with adapters", "model.merge_and_unload().save_pretrained(DIRECTORY)"},
  }};
  for (const std::string& name : checkpoint.Names()) {
    for (const auto& [prefix, what, remedy] : kWrapped) {
      if (name.starts_with(prefix))
        return absl::StrCat(", but ", name, ": it is ", what, "; save the model itself again: ", remedy);
    }
  }
  return kOneModel;
}

absl::StatusOr<std::string> CheckTensor(const SafetensorsReader& checkpoint, const TensorInfo& wanted) {
  const std::string name = StoredName(checkpoint, wanted.name);
  if (name.empty()) {
    return absl::NotFoundError(
        absl::StrCat(absl::StrJoin(checkpoint.paths(), ", "), " has no tensor ", wanted.name, WhyMissing(checkpoint)));
  }
  ATOLL_RETURN_IF_ERROR(checkpoint.CheckReadable(name));
  const SafetensorsTensor& tensor = *checkpoint.Find(name);
  if (tensor.shape == wanted.shape) return name;
  return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " of ", checkpoint.PathOf(name), " has the shape [",
                                                 absl::StrJoin(tensor.shape, ", "), "], but config.json implies [",
                                                 absl::StrJoin(wanted.shape, ", "), "]", kOneModel));
}

}  // namespace

absl::Status CheckModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout) {
  for (const TensorInfo& tensor : layout.tensors) ATOLL_RETURN_IF_ERROR(CheckTensor(checkpoint, tensor).status());
  return absl::OkStatus();
}

absl::Status ReadModelTensors(const SafetensorsReader& checkpoint, const ModelLayout& layout, std::span<float> arena,
                              const std::function<bool()>& go_on) {
  ATOLL_RETURN_IF_ERROR(CheckModelTensors(checkpoint, layout));
  for (const TensorInfo& tensor : layout.tensors) {
    if (go_on != nullptr && !go_on()) return absl::CancelledError("not asked for any more");
    const std::string name = StoredName(checkpoint, tensor.name);
    ATOLL_RETURN_IF_ERROR(checkpoint.ReadTensor(name, arena.subspan(tensor.offset, tensor.elements)));
  }
  return absl::OkStatus();
}

absl::Status CheckModelValues(const SafetensorsReader& checkpoint, const ModelLayout& layout) {
  ATOLL_RETURN_IF_ERROR(CheckModelTensors(checkpoint, layout));
  std::vector<float> buffer;
  for (const TensorInfo& tensor : layout.tensors) {
    const std::string name = StoredName(checkpoint, tensor.name);
    for (uint64_t at = 0; at < tensor.elements; at += buffer.size()) {
      buffer.resize(static_cast<size_t>(std::min(kChunkElements, tensor.elements - at)));
      ATOLL_RETURN_IF_ERROR(checkpoint.ReadElements(name, at, buffer));
    }
  }
  return absl::OkStatus();
}

}  // namespace atl
