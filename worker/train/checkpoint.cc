// SPDX-License-Identifier: Apache-2.0
#include "worker/train/checkpoint.h"

#include <utility>

#include "common/base/host_memory.h"
#include "common/format/model_tensors.h"
#include "common/plan/limits.h"
#include "common/text/huggingface_tokenizer.h"

namespace atl {
namespace {

constexpr uint64_t kConfigBytes = uint64_t{1} << 20;

absl::Status CheckFits(const ModelLayout& layout) {
  ATOLL_ASSIGN_OR_RETURN(const uint64_t available, AvailableHostMemory());
  const uint64_t needed = layout.elements * sizeof(float);
  if (needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the parameters need ", needed >> 20, " MiB, but ", available >> 20,
                                                   " MiB are free; use a machine with more memory"));
}

}  // namespace

absl::StatusOr<Checkpoint> LoadCheckpoint(const Files& files, const std::string& directory) {
  const std::string path = JoinPath(directory, "config.json");
  ATOLL_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(files, path, kConfigBytes));
  auto config = ParseHuggingFaceConfig(json);
  if (!config.ok()) return Annotate(config.status(), path);
  Checkpoint out;
  out.config = *std::move(config);
  out.layout = MakeModelLayout(out.config.model, FragmentPattern::kWhole, 1);
  ATOLL_RETURN_IF_ERROR(CheckFits(out.layout));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader, SafetensorsReader::Open(files, directory));
  ATOLL_ASSIGN_OR_RETURN(out.parameters, Arena::Create(out.layout.elements, {}));
  ATOLL_RETURN_IF_ERROR(ReadModelTensors(*reader, out.layout, out.parameters->host()));
  return out;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadCheckpointTokenizer(const Files& files, const std::string& directory) {
  const std::string pieces = JoinPath(directory, kSentencePieceFileName);
  if (files.Exists(pieces)) {
    ATOLL_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files, pieces, limits::kTokenizerFileBytes));
    return LoadSentencePiece(std::move(bytes));
  }
  const std::string path = JoinPath(directory, "tokenizer.json");
  if (!files.Exists(path)) {
    return absl::NotFoundError(absl::StrCat(directory, " has neither ", kSentencePieceFileName,
                                            " nor tokenizer.json: export the checkpoint with its tokenizer"));
  }
  ATOLL_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(files, path, limits::kTokenizerFileBytes));
  if (IsHuggingFaceByteTokenizer(json)) return MakeByteTokenizer();
  return absl::InvalidArgumentError(absl::StrCat(path, " is not the byte tokenizer's, and there is no ",
                                                 kSentencePieceFileName,
                                                 " in the same directory: no other kind of tokenizer is supported"));
}

}  // namespace atl
