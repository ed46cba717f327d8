#include "cli/stage_weights.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/format/huggingface.h"
#include "common/format/safetensors.h"
#include "common/plan/limits.h"

namespace atl::cli {
namespace {

constexpr char kWanted[] = "; give a directory with config.json and .safetensors files";
constexpr uint64_t kChunkElements = uint64_t{1} << 20;

bool IsWeights(const std::string& name) {
  const std::string end = ".safetensors";
  return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

absl::Status CheckFinite(const SafetensorsReader& reader, const SafetensorsTensor& tensor, std::vector<float>& buffer) {
  for (uint64_t at = 0; at < tensor.elements; at += kChunkElements) {
    buffer.resize(static_cast<size_t>(std::min(kChunkElements, tensor.elements - at)));
    const absl::Status read = reader.ReadElements(tensor.name, at, buffer);
    if (!read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(read.message(), "; give the weights of another checkpoint"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindWeights(const Files& files, const std::string& directory) {
  if (!files.Exists(directory)) {
    return absl::NotFoundError(absl::StrCat("names ", directory, ", which does not exist", kWanted));
  }
  const absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", names.status().message(), kWanted));
  }
  const std::string single = "model.safetensors";
  if (std::find(names->begin(), names->end(), single) != names->end()) {
    return std::vector<std::string>{JoinPath(directory, single)};
  }
  std::vector<std::string> weights;
  for (const std::string& name : *names) {
    if (IsWeights(name)) weights.push_back(JoinPath(directory, name));
  }
  if (weights.empty()) {
    return absl::NotFoundError(absl::StrCat("names ", directory, ", which holds no .safetensors file", kWanted));
  }
  if (weights.size() > limits::kInitialFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("names a directory with more than ", limits::kInitialFiles, " .safetensors files"));
  }
  return weights;
}

absl::Status CheckWeights(const Files& files, const std::vector<std::string>& paths, const ModelSpec* model) {
  std::vector<std::unique_ptr<SafetensorsReader>> readers;
  readers.reserve(paths.size());
  for (const std::string& path : paths) {
    auto reader = SafetensorsReader::OpenFile(files, path);
    if (!reader.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(reader.status().message(), "; the file is damaged or was not copied to its end: copy it again"));
    }
    readers.push_back(*std::move(reader));
  }
  if (model == nullptr) return absl::OkStatus();
  std::vector<float> buffer;
  for (const auto& [name, shape] : HuggingFaceTensors(*model)) {
    const auto holder = std::find_if(readers.rbegin(), readers.rend(),
                                     [&tensor = name](const auto& reader) { return reader->Find(tensor) != nullptr; });
    if (holder == readers.rend()) {
      return absl::NotFoundError(absl::StrCat(absl::StrJoin(paths, ", "), " has no tensor ", name,
                                              "; config.json and the weights must be of one model"));
    }
    const SafetensorsTensor& tensor = *(*holder)->Find(name);
    if (tensor.shape != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " of ", paths[static_cast<size_t>(readers.rend() - holder) - 1],
                       " has the shape [", absl::StrJoin(tensor.shape, ", "), "], which config.json says is [",
                       absl::StrJoin(shape, ", "), "]; config.json and the weights must be of one model"));
    }
    ATOLL_RETURN_IF_ERROR(CheckFinite(**holder, tensor, buffer));
  }
  return absl::OkStatus();
}

}  // namespace atl::cli
