#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "worker/data/sample_reader.h"

namespace atl {

absl::StatusOr<std::vector<CorpusShape>> ShapesOf(const DataSpec& data, const std::vector<CorpusManifest>& manifests) {
  if (data.corpora.size() != manifests.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job names ", data.corpora.size(), " corpora, but ", manifests.size(), " manifests are here"));
  }
  std::vector<CorpusShape> shapes;
  for (size_t i = 0; i < manifests.size(); ++i) {
    CorpusShape shape;
    shape.name = data.corpora[i].name;
    shape.weight = data.corpora[i].weight;
    shape.bytes_per_token = static_cast<uint32_t>(TokenBytes(manifests[i].token_type));
    for (const CorpusFile* file : manifests[i].FilesOf(CorpusSplit::kTrain)) shape.shard_tokens.push_back(file->tokens);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

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
