// SPDX-License-Identifier: Apache-2.0
#include "common/plan/data_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/plan/shards.h"

namespace atl {

// The blocks of one epoch of one corpus in permuted order.
struct DataOrder::Epoch {
  uint64_t key = 0;
  std::vector<uint32_t> blocks;  // indices into Corpus::blocks
  std::vector<uint64_t> prefix;  // number of samples before each block; one entry more than blocks
};

// The two most recently computed epochs of each corpus: a reader may read ahead across the end of an epoch.
struct DataOrder::EpochCache {
  struct Entry {
    uint32_t corpus = 0;
    uint64_t epoch = 0;
    std::shared_ptr<const Epoch> table;
  };
  Mutex mutex;
  std::vector<Entry> entries ATOLL_GUARDED_BY(mutex);  // oldest first, at most two for each corpus
};

absl::StatusOr<DataOrder::Corpus> DataOrder::MakeCorpus(const DataSpec& spec, CorpusShape shape) {
  Corpus corpus;
  corpus.key = StreamKey(spec.seed, "order/" + shape.name);
  const uint64_t t = spec.sequence_length;
  const uint64_t block_tokens = std::max<uint64_t>(1, kBlockBytes / shape.bytes_per_token);
  for (uint32_t shard = 0; shard < shape.shard_tokens.size(); ++shard) {
    const uint64_t tokens = shape.shard_tokens[shard];
    const uint64_t samples = tokens > t ? (tokens - 1) / t : 0;
    for (uint64_t first = 0; first < samples;) {
      const uint64_t block_end = (first * t / block_tokens + 1) * block_tokens;
      const uint64_t next = std::min(samples, (block_end + t - 1) / t);
      corpus.blocks.push_back({.shard = shard, .samples = static_cast<uint32_t>(next - first), .first_sample = first});
      first = next;
    }
    corpus.samples += samples;
  }
  if (corpus.samples == 0) {
    return absl::InvalidArgumentError(absl::StrCat("corpus '", shape.name, "' has no shard of at least ", t + 1,
                                                   " tokens: shorten data.sequence_length or add text"));
  }
  corpus.shape = std::move(shape);
  return corpus;
}

absl::StatusOr<DataOrder> DataOrder::Create(const DataSpec& spec, std::vector<CorpusShape> corpora) {
  ATOLL_CHECK(spec.sequence_length >= 1, "a sample needs a token");
  if (corpora.empty()) return absl::InvalidArgumentError("a job needs at least one corpus");
  DataOrder order;
  order.sequence_length_ = spec.sequence_length;
  order.pinned_ = spec.pin_shards;
  order.window_blocks_ = std::max<uint32_t>(1, spec.window_blocks);
  for (CorpusShape& shape : corpora) {
    ATOLL_CHECK(shape.weight >= 1 && shape.bytes_per_token >= 1, "a corpus needs a weight and a token size");
    ATOLL_ASSIGN_OR_RETURN(Corpus corpus, MakeCorpus(spec, std::move(shape)));
    order.corpora_.push_back(std::move(corpus));
  }
  order.MakePattern();
  order.cache_ = std::make_shared<EpochCache>();
  return order;
}

// Gives each slot to the corpus that is furthest below its share (the first of equals). The result
// is exact over a period and spread evenly within it.
void DataOrder::MakePattern() {
  uint64_t divisor = 0, period = 0;
  for (const Corpus& c : corpora_) divisor = std::gcd(divisor, uint64_t{c.shape.weight});
  for (Corpus& c : corpora_) {
    c.per_period = static_cast<uint32_t>(c.shape.weight / divisor);
    period += c.per_period;
  }
  std::vector<uint64_t> given(corpora_.size(), 0);
  for (uint64_t slot = 0; slot < period; ++slot) {
    uint32_t best = 0;
    int64_t best_lag = INT64_MIN;
    for (uint32_t c = 0; c < corpora_.size(); ++c) {
      const int64_t lag =
          static_cast<int64_t>((slot + 1) * corpora_[c].per_period) - static_cast<int64_t>(given[c] * period);
      if (lag > best_lag && given[c] < corpora_[c].per_period) {
        best = c;
        best_lag = lag;
      }
    }
    pattern_.push_back(best);
    ranks_.push_back(static_cast<uint32_t>(given[best]++));
  }
}

std::shared_ptr<const DataOrder::Epoch> DataOrder::EpochOf(uint32_t corpus, uint64_t epoch) const {
  const MutexLock lock(cache_->mutex);
  auto& entries = cache_->entries;
  for (const auto& e : entries) {
    if (e.corpus == corpus && e.epoch == epoch) return e.table;
  }
  const Corpus& c = corpora_[corpus];
  auto table = std::make_shared<Epoch>();
  table->key = StreamKey(c.key, "epoch/" + std::to_string(epoch));
  table->prefix.push_back(0);
  for (uint64_t i = 0; i < c.blocks.size(); ++i) {
    const uint64_t block = Permute(table->key, c.blocks.size(), i);
    table->blocks.push_back(static_cast<uint32_t>(block));
    table->prefix.push_back(table->prefix.back() + c.blocks[block].samples);
  }
  const auto same = [corpus](const auto& e) { return e.corpus == corpus; };
  if (std::count_if(entries.begin(), entries.end(), same) >= 2) {
    entries.erase(std::find_if(entries.begin(), entries.end(), same));
  }
  entries.push_back({corpus, epoch, table});
  return table;
}

// Returns the corpus of a position, and the position in that corpus' endless sequence.
std::pair<uint32_t, uint64_t> DataOrder::Split(uint64_t position) const {
  if (pinned_) {
    return {static_cast<uint32_t>(position / kShardPositions % corpora_.size()), position % kShardPositions};
  }
  const uint64_t period = pattern_.size(), slot = position % period;
  const uint32_t index = pattern_[slot];
  return {index, position / period * corpora_[index].per_period + ranks_[slot]};
}

SampleLocation DataOrder::At(uint64_t position) const {
  const auto [index, in_corpus] = Split(position);
  const Corpus& corpus = corpora_[index];
  const uint64_t epoch = in_corpus / corpus.samples, in_epoch = in_corpus % corpus.samples;
  const std::shared_ptr<const Epoch> table = EpochOf(index, epoch);
  const auto& prefix = table->prefix;
  const auto block_at = [&prefix](uint64_t sample) {
    return static_cast<uint64_t>(std::upper_bound(prefix.begin(), prefix.end(), sample) - prefix.begin() - 1);
  };

  const uint64_t window = block_at(in_epoch) / window_blocks_;
  const uint64_t begin = prefix[window * window_blocks_];
  const uint64_t end = prefix[std::min<uint64_t>((window + 1) * window_blocks_, table->blocks.size())];
  const uint64_t window_key = StreamKey(table->key, "window/" + std::to_string(window));
  const uint64_t sample = begin + Permute(window_key, end - begin, in_epoch - begin);

  const uint64_t place = block_at(sample);
  const Block& block = corpus.blocks[table->blocks[place]];
  const uint64_t in_shard = block.first_sample + (sample - prefix[place]);
  return {.corpus = index, .shard = block.shard, .token = in_shard * sequence_length_, .epoch = epoch};
}

uint64_t DataOrder::SamplesPerEpoch(uint32_t corpus) const {
  ATOLL_CHECK(corpus < corpora_.size(), "no such corpus");
  return corpora_[corpus].samples;
}

uint64_t DataOrder::PositionsForEpochs(double epochs) const {
  ATOLL_CHECK(epochs >= 0 && std::isfinite(epochs), "epochs are a number of at least 0");
  uint64_t positions = 0;
  for (uint32_t c = 0; c < corpora_.size(); ++c) {
    const uint64_t wanted = static_cast<uint64_t>(std::ceil(epochs * static_cast<double>(corpora_[c].samples)));
    if (wanted == 0) continue;
    const uint64_t periods = (wanted - 1) / corpora_[c].per_period, rank = (wanted - 1) % corpora_[c].per_period;
    for (uint64_t slot = 0; slot < pattern_.size(); ++slot) {
      if (pattern_[slot] == c && ranks_[slot] == rank) {
        positions = std::max(positions, periods * pattern_.size() + slot + 1);
      }
    }
  }
  return positions;
}

}  // namespace atl
