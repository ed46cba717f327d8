// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "worker/data/sample_reader.h"

namespace atl {

BlockMemory::BlockMemory(BlockSource& source, CorpusManifests manifests, size_t blocks)
    : source_(source), manifests_(std::move(manifests)), limit_(std::max<size_t>(2, blocks)) {}

absl::StatusOr<const std::string*> BlockMemory::Block(const BlockId& id) {
  if (const auto found = index_.find(id); found != index_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return &recent_.front().second;
  }
  ATOLL_ASSIGN_OR_RETURN(std::string bytes, source_.FetchBlock(id));
  ATOLL_CHECK(bytes.size() == BlockSizeBytes(manifests_->at(id.corpus), id), "a source gives the whole block");
  if (recent_.size() >= limit_) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
  }
  recent_.emplace_front(id, std::move(bytes));
  index_[id] = recent_.begin();
  return &recent_.front().second;
}

absl::Status BlockMemory::ReadTokens(uint32_t corpus, uint32_t file, uint64_t first, std::span<int32_t> out) {
  const CorpusManifest& manifest = manifests_->at(corpus);
  if (first + out.size() > manifest.files.at(file).tokens) {
    return absl::OutOfRangeError(absl::StrCat("tokens [", first, ", ", first + out.size(), ") are beyond shard ",
                                              manifest.files[file].name, " of ", manifest.files[file].tokens));
  }
  const uint64_t width = TokenBytes(manifest.token_type), per_block = kBlockBytes / width;
  std::vector<uint32_t> ids;
  while (!out.empty()) {
    const uint64_t block = first / per_block, begin = first % per_block;
    ids.resize(std::min<uint64_t>(out.size(), per_block - begin));
    ATOLL_ASSIGN_OR_RETURN(const std::string* bytes, Block({corpus, file, static_cast<uint32_t>(block)}));
    DecodeTokens(manifest.token_type, AsBytes(*bytes).subspan(begin * width, ids.size() * width), ids);
    std::transform(ids.begin(), ids.end(), out.begin(), [](uint32_t id) { return static_cast<int32_t>(id); });
    out = out.subspan(ids.size());
    first += ids.size();
  }
  return absl::OkStatus();
}

}  // namespace atl
