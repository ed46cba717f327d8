// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/format/token_shard.h"
#include "common/plan/data_order.h"

namespace atl {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Hashes a shard sequentially: the whole file and each block of its token area.
class ShardHashes {
 public:
  void Header(Bytes header) { file_.Update(header); }
  // Adds the next part of the token area; all parts but the last have kBlockBytes bytes.
  void Block(Bytes block) {
    file_.Update(block);
    blocks_.push_back(Sha256Of(block));
  }
  void Fill(TokenShardWriter::Result& result) {
    result.sha256 = file_.Finish();
    result.blocks = std::move(blocks_);
  }

 private:
  Sha256Hasher file_;
  std::vector<Sha256> blocks_;
};

}  // namespace

TokenShardWriter::TokenShardWriter(Files& files, std::string path, TokenType type)
    : files_(files), path_(std::move(path)), type_(type) {}

absl::StatusOr<std::unique_ptr<TokenShardWriter>> TokenShardWriter::Create(Files& files, std::string path,
                                                                           TokenType type) {
  std::unique_ptr<TokenShardWriter> writer(new TokenShardWriter(files, std::move(path), type));
  ATOLL_RETURN_IF_ERROR(files.Remove(writer->path_ + ".area"));
  ATOLL_RETURN_IF_ERROR(files.Remove(writer->path_ + ".tmp"));
  ATOLL_ASSIGN_OR_RETURN(writer->area_, files.OpenForAppend(writer->path_ + ".area"));
  return writer;
}

TokenShardWriter::~TokenShardWriter() {
  files_.Remove(path_ + ".area").IgnoreError();  // a destructor cannot report an error
  if (!finished_) files_.Remove(path_ + ".tmp").IgnoreError();
}

absl::Status TokenShardWriter::FlushBuffer() {
  ATOLL_RETURN_IF_ERROR(area_->Append(AsBytes(buffer_)));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status TokenShardWriter::Append(std::span<const uint32_t> ids) {
  const uint32_t largest = type_ == TokenType::kUint16 ? UINT16_MAX : INT32_MAX;
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return id > largest; });
  if (bad != ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": token id ", *bad, " does not fit ", TokenTypeName(type_)));
  }
  if (ids.size() > kShardTokens - tokens_) {
    return absl::InvalidArgumentError(absl::StrCat(path_, " would contain more than ", kShardTokens, " tokens"));
  }
  tokens_ += ids.size();
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), kBufferBytes);
    EncodeTokens(type_, ids.first(count), buffer_);
    ids = ids.subspan(count);
    if (buffer_.size() >= kBufferBytes) ATOLL_RETURN_IF_ERROR(FlushBuffer());
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenShardWriter::Result> TokenShardWriter::Finish() {
  ATOLL_RETURN_IF_ERROR(FlushBuffer());
  ATOLL_ASSIGN_OR_RETURN(const auto out, files_.OpenForAppend(path_ + ".tmp"));
  const std::string header = ShardHeader(type_, tokens_);
  ShardHashes hashes;
  ATOLL_RETURN_IF_ERROR(out->Append(AsBytes(header)));
  hashes.Header(AsBytes(header));
  const uint64_t area_bytes = tokens_ * TokenBytes(type_);
  std::vector<std::byte> block(std::min(area_bytes, kBlockBytes));
  for (uint64_t at = 0; at < area_bytes; at += kBlockBytes) {
    const std::span<std::byte> part(block.data(), std::min(area_bytes - at, kBlockBytes));
    ATOLL_RETURN_IF_ERROR(area_->ReadAt(at, part));
    ATOLL_RETURN_IF_ERROR(out->Append(part));
    hashes.Block(part);
  }
  ATOLL_RETURN_IF_ERROR(out->Sync());
  ATOLL_RETURN_IF_ERROR(files_.Rename(path_ + ".tmp", path_));
  finished_ = true;
  ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(DirectoryOf(path_)));
  Result result;
  result.tokens = tokens_;
  result.file_bytes = kShardHeaderBytes + area_bytes;
  hashes.Fill(result);
  return result;
}

}  // namespace atl
