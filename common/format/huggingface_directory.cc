// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/format/huggingface.h"
#include "common/format/json_object.h"
#include "common/format/safetensors.h"
#include "common/plan/tokenizer_file_name.h"

namespace atl {
namespace {

// Tensors of one file: consecutive; a new file begins before the tensor that would exceed the
// limit.
struct FilePlan {
  size_t first = 0, count = 0;
  uint64_t bytes = 0;
};

std::vector<FilePlan> PlanFiles(const std::vector<TensorInfo>& tensors, NumberType type, uint64_t limit_bytes) {
  std::vector<FilePlan> plan;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = tensors[i].elements * NumberBytes(type);
    if (plan.empty() || plan.back().bytes + bytes > limit_bytes) plan.push_back(FilePlan{i, 0, 0});
    ++plan.back().count;
    plan.back().bytes += bytes;
  }
  return plan;
}

std::string FileName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

struct Progress {
  uint64_t done_bytes = 0, total_bytes = 0;
};

absl::Status WriteWeights(Files& files, const std::string& path, const std::vector<TensorInfo>& tensors,
                          const FilePlan& plan, NumberType type, const TensorSource& source,
                          const HuggingFaceWriteOptions& options, Progress& progress) {
  std::vector<SafetensorsTensor> declared;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    declared.push_back(SafetensorsTensor{.name = tensors[i].name, .type = type, .shape = tensors[i].shape});
  }
  ATOLL_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(files, path, std::move(declared)));
  std::vector<float> values;
  for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
    for (uint64_t begin = 0; begin < tensors[i].elements; begin += values.size()) {
      values.resize(std::min(tensors[i].elements - begin, std::max<uint64_t>(options.chunk_elements, 1)));
      ATOLL_RETURN_IF_ERROR(source(i, begin, values));
      ATOLL_RETURN_IF_ERROR(writer->Append(values));
      progress.done_bytes += values.size() * NumberBytes(type);
      if (options.progress) options.progress(progress.done_bytes, progress.total_bytes);
    }
  }
  return writer->Finish();
}

std::string IndexJson(const std::vector<TensorInfo>& tensors, const std::vector<FilePlan>& plan, uint64_t total_bytes) {
  json::Value root;
  root["metadata"] = {{"total_size", total_bytes}};
  json::Value& map = root["weight_map"] = json::Value::object();
  for (size_t file = 0; file < plan.size(); ++file) {
    for (size_t i = plan[file].first; i < plan[file].first + plan[file].count; ++i) {
      map[tensors[i].name] = FileName(file, plan.size());
    }
  }
  return root.dump(2) + "\n";
}

}  // namespace

absl::Status WriteHuggingFaceDirectory(Files& files, const std::string& directory, const HuggingFaceConfig& config,
                                       const std::vector<TensorInfo>& tensors,
                                       const std::map<std::string, std::string>& tokenizer_files,
                                       const TensorSource& source, const HuggingFaceWriteOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(const auto present, files.List(directory));
  if (!present.empty()) {
    return absl::AlreadyExistsError(absl::StrCat(directory, " is not empty; choose another directory"));
  }
  for (const auto& [name, content] : tokenizer_files) {
    if (IsTokenizerFileName(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a tokenizer file is called \"", name, "\"; names must be ", kTokenizerFileNameRule));
  }
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(directory));
  const std::vector<FilePlan> plan = PlanFiles(tensors, config.weights, options.shard_bytes);
  Progress progress;
  for (const FilePlan& file : plan) progress.total_bytes += file.bytes;
  for (size_t i = 0; i < plan.size(); ++i) {
    const std::string path = JoinPath(directory, FileName(i, plan.size()));
    ATOLL_RETURN_IF_ERROR(WriteWeights(files, path, tensors, plan[i], config.weights, source, options, progress));
  }
  std::vector<std::pair<std::string, std::string>> texts;
  if (plan.size() > 1)
    texts.emplace_back("model.safetensors.index.json", IndexJson(tensors, plan, progress.total_bytes));
  texts.insert(texts.end(), tokenizer_files.begin(), tokenizer_files.end());
  texts.emplace_back("generation_config.json", GenerationConfigJson(config));
  texts.emplace_back("config.json", HuggingFaceConfigJson(config));  // last: a directory without it cannot be loaded
  for (const auto& [name, content] : texts) {
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(directory, name), AsBytes(content)));
  }
  return absl::OkStatus();
}

}  // namespace atl
