// SPDX-License-Identifier: Apache-2.0
#include "common/format/bigram.h"

#include <algorithm>
#include <cmath>

namespace atl {
namespace {

constexpr size_t kChunkTokens = size_t{1} << 18;

uint64_t Pair(uint32_t before, uint32_t token) { return static_cast<uint64_t>(before) << 32 | token; }

// Calls `use(ids, overlap)` for consecutive chunks of the shard. From the second call on, the first
// id repeats the last one of the previous call.
template <typename Use>
absl::Status ForEachChunk(const Files& files, const std::string& path, uint32_t vocab_size, const Use& use) {
  ATOLL_ASSIGN_OR_RETURN(const auto shard, TokenShard::Open(files, path));
  std::vector<uint32_t> ids;
  for (uint64_t at = 0; at < shard->tokens();) {
    const bool overlap = at > 0;
    const uint64_t first = overlap ? at - 1 : 0;
    ids.resize(std::min<uint64_t>(kChunkTokens, shard->tokens() - first));
    ATOLL_RETURN_IF_ERROR(shard->Read(first, ids));
    const auto bad = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return id >= vocab_size; });
    if (bad != ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": token ", first + static_cast<uint64_t>(bad - ids.begin()),
                                                     " is ", *bad, ", not below the vocabulary size ", vocab_size));
    }
    use(std::span<const uint32_t>(ids), overlap);
    at = first + ids.size();
  }
  return absl::OkStatus();
}

}  // namespace

BigramModel::BigramModel(uint32_t vocab_size, size_t max_pairs)
    : vocab_size_(vocab_size),
      max_pairs_(max_pairs),
      unigrams_(vocab_size),
      begins_(vocab_size),
      followers_(vocab_size) {}

bool BigramModel::Count(std::span<const uint32_t> ids, bool continues) {
  if (pairs_.size() >= max_pairs_) return false;
  if (!continues) has_last_ = false;
  for (const uint32_t id : ids) {
    ++unigrams_[id];
    ++total_;
    if (has_last_) {
      ++begins_[last_];
      if (++pairs_[Pair(last_, id)] == 1) ++followers_[last_];
    }
    last_ = id;
    has_last_ = true;
  }
  return true;
}

double BigramModel::Probability(uint32_t before, uint32_t token) const {
  const double unigram =
      (static_cast<double>(unigrams_[token]) + 1) / (static_cast<double>(total_) + static_cast<double>(vocab_size_));
  const double followers = followers_[before];
  if (followers == 0) return unigram;
  const auto pair = pairs_.find(Pair(before, token));
  const double count = pair == pairs_.end() ? 0 : static_cast<double>(pair->second);
  return (count + followers * unigram) / (static_cast<double>(begins_[before]) + followers);
}

double BigramModel::Score(std::span<const uint32_t> ids, uint64_t& scored) const {
  double nats = 0;
  for (size_t i = 1; i < ids.size(); ++i) nats -= std::log(Probability(ids[i - 1], ids[i]));
  if (ids.size() > 1) scored += ids.size() - 1;
  return nats;
}

absl::StatusOr<BigramBaseline> MeasureBigram(const Files& files, const std::string& directory,
                                             const CorpusManifest& manifest) {
  if (manifest.train.tokens == 0 || manifest.held_out.tokens == 0) {
    return absl::FailedPreconditionError("a bigram baseline needs training and held-out tokens");
  }
  const uint32_t vocab_size = manifest.tokenizer.vocab_size;
  BigramModel model(vocab_size);
  for (const CorpusFile* file : manifest.FilesOf(CorpusSplit::kTrain)) {
    const auto count = [&](std::span<const uint32_t> ids, bool overlap) {
      model.Count(overlap ? ids.subspan(1) : ids, overlap);
    };
    ATOLL_RETURN_IF_ERROR(ForEachChunk(files, JoinPath(directory, file->name), vocab_size, count));
  }
  double nats = 0;
  BigramBaseline baseline;
  for (const CorpusFile* file : manifest.FilesOf(CorpusSplit::kHeldOut)) {
    const auto score = [&](std::span<const uint32_t> ids, bool) { nats += model.Score(ids, baseline.scored_tokens); };
    ATOLL_RETURN_IF_ERROR(ForEachChunk(files, JoinPath(directory, file->name), vocab_size, score));
  }
  if (baseline.scored_tokens == 0) return absl::FailedPreconditionError("no held-out token has a predecessor");
  baseline.train_tokens = model.counted_tokens();
  const double mean_nats = nats / static_cast<double>(baseline.scored_tokens);
  baseline.perplexity = std::exp(mean_nats);
  if (manifest.held_out.text_bytes > 0) {
    baseline.bits_per_byte = mean_nats / std::log(2.0) * static_cast<double>(manifest.held_out.tokens) /
                             static_cast<double>(manifest.held_out.text_bytes);
  }
  return baseline;
}

}  // namespace atl
