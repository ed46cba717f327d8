// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_verify.h"

#include <algorithm>
#include <vector>

#include "common/plan/data_order.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

absl::Status CheckIds(const TokenShard& shard, uint64_t first_token, Bytes block, uint32_t vocab_size) {
  std::vector<uint32_t> ids(block.size() / TokenBytes(shard.type()));
  DecodeTokens(shard.type(), block, ids);
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return id >= vocab_size; });
  if (bad == ids.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(shard.path(), ": token ", first_token + static_cast<uint64_t>(bad - ids.begin()), " is ", *bad,
                   ", not below the vocabulary size ", vocab_size, "; it was prepared with another tokenizer"));
}

absl::Status HashHeader(const Files& files, const std::string& path, Sha256Hasher& hasher) {
  ATOLL_ASSIGN_OR_RETURN(const auto file, files.OpenForRead(path));
  std::vector<std::byte> header(kShardHeaderBytes);
  ATOLL_RETURN_IF_ERROR(file->ReadAt(0, header));
  hasher.Update(header);
  return absl::OkStatus();
}

absl::Status CheckTokenizer(const Files& files, const std::string& directory, const CorpusTokenizer& tokenizer) {
  if (tokenizer.file.empty()) return absl::OkStatus();
  const std::string path = JoinPath(directory, tokenizer.file);
  ATOLL_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files, path, limits::kTokenizerFileBytes));
  if (Sha256Of(AsBytes(bytes)) == tokenizer.sha256) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " is not the tokenizer of the manifest: its SHA-256 differs"));
}

}  // namespace

absl::Status VerifyShard(const Files& files, const std::string& directory, const CorpusManifest& manifest,
                         const CorpusFile& file, const std::function<void(uint64_t)>& read_bytes) {
  const std::string path = JoinPath(directory, file.name);
  ATOLL_ASSIGN_OR_RETURN(const auto shard, TokenShard::Open(files, path));
  if (shard->tokens() != file.tokens || shard->type() != manifest.token_type) {
    return absl::DataLossError(absl::StrCat(path, " holds ", shard->tokens(), " ", TokenTypeName(shard->type()),
                                            " tokens, but its manifest has ", file.tokens, " ",
                                            TokenTypeName(manifest.token_type)));
  }
  Sha256Hasher whole;
  ATOLL_RETURN_IF_ERROR(HashHeader(files, path, whole));
  std::vector<std::byte> buffer(std::min(shard->area_bytes(), kBlockBytes));
  for (size_t block = 0; block < file.blocks.size(); ++block) {
    const uint64_t at = block * kBlockBytes;
    const std::span<std::byte> part(buffer.data(), std::min(kBlockBytes, shard->area_bytes() - at));
    ATOLL_RETURN_IF_ERROR(shard->ReadArea(at, part));
    if (Sha256Of(part) != file.blocks[block]) {
      return absl::DataLossError(absl::StrCat(path, " is damaged: block ", block, " (bytes ", at, " to ",
                                              at + part.size(),
                                              " of the token area) has another SHA-256 than its manifest"));
    }
    whole.Update(part);
    ATOLL_RETURN_IF_ERROR(CheckIds(*shard, at / TokenBytes(shard->type()), part, manifest.tokenizer.vocab_size));
    if (read_bytes) read_bytes(part.size());
  }
  if (whole.Finish() == file.sha256) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path,
                                          " has another SHA-256 than its manifest although all blocks are right: its ",
                                          "header or the manifest was changed"));
}

absl::StatusOr<CorpusManifest> VerifyCorpus(const Files& files, const std::string& directory,
                                            const VerifyProgress& progress, const VerifyFault& on_fault) {
  ATOLL_ASSIGN_OR_RETURN(CorpusManifest manifest, ReadManifest(files, directory));
  absl::Status first;
  const auto goes_on = [&](const absl::Status& status) {
    first.Update(status);
    if (!status.ok() && on_fault) on_fault(status);
    return first.ok() || on_fault;
  };
  if (!goes_on(CheckTokenizer(files, directory, manifest.tokenizer))) return first;
  uint64_t total_bytes = 0, done_bytes = 0;
  for (const CorpusFile& file : manifest.files) total_bytes += file.bytes - kShardHeaderBytes;
  for (const CorpusFile& file : manifest.files) {
    const auto read_bytes = [&](uint64_t bytes) {
      done_bytes += bytes;
      if (progress) progress(done_bytes, total_bytes);
    };
    if (!goes_on(VerifyShard(files, directory, manifest, file, read_bytes))) return first;
  }
  if (!first.ok()) return first;
  return manifest;
}

}  // namespace atl
