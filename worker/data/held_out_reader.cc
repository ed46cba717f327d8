// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/data/sample_reader.h"

namespace atl {
namespace {

constexpr size_t kHeldOutBlocks = 8;  // samples are read sequentially

}  // namespace

HeldOutReader::HeldOutReader(uint32_t sequence_length, CorpusManifests manifests, BlockSource& source,
                             CorpusSplit split)
    : sequence_length_(sequence_length),
      manifests_(manifests),
      split_(split),
      memory_(source, manifests, kHeldOutBlocks) {}

absl::StatusOr<std::unique_ptr<HeldOutReader>> HeldOutReader::Create(uint32_t sequence_length,
                                                                     CorpusManifests manifests, BlockSource& source,
                                                                     CorpusSplit split) {
  ATOLL_CHECK(sequence_length >= 1, "a sample needs a token");
  std::unique_ptr<HeldOutReader> out(new HeldOutReader(sequence_length, std::move(manifests), source, split));
  std::vector<uint64_t> corpus_samples;
  for (const CorpusManifest& manifest : *out->manifests_) {
    std::vector<Shard> shards;
    uint64_t samples = 0;
    for (uint32_t f = 0; f < manifest.files.size(); ++f) {
      const CorpusFile& file = manifest.files[f];
      if (file.split != split || file.tokens <= sequence_length) continue;
      shards.push_back({.file = f, .first_sample = samples});
      samples += (file.tokens - 1) / sequence_length;
    }
    out->shards_.push_back(std::move(shards));
    corpus_samples.push_back(samples);
    out->samples_ += samples;
  }
  if (out->samples_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat("no shard of split ", SplitName(split), " has a sample of ",
                                                   sequence_length + 1, " tokens: prepare the corpus with more text"));
  }
  out->PlanTurns(corpus_samples);
  return out;
}

void HeldOutReader::PlanTurns(const std::vector<uint64_t>& corpus_samples) {
  uint64_t first = 0, base = 0;
  for (;;) {
    Turn turn{.first = first, .base = base, .corpora = {}};
    uint64_t end = UINT64_MAX;  // the first corpus to run out does so at its sample `end`
    for (uint32_t c = 0; c < corpus_samples.size(); ++c) {
      if (corpus_samples[c] <= base) continue;
      turn.corpora.push_back(c);
      end = std::min(end, corpus_samples[c]);
    }
    if (turn.corpora.empty()) return;
    first += (end - base) * turn.corpora.size();
    base = end;
    turns_.push_back(std::move(turn));
  }
}

std::pair<uint32_t, uint64_t> HeldOutReader::CorpusOf(uint64_t sample) const {
  const auto after = std::upper_bound(turns_.begin(), turns_.end(), sample,
                                      [](uint64_t s, const Turn& turn) { return s < turn.first; });
  const Turn& turn = *std::prev(after);
  const uint64_t place = sample - turn.first;
  return {turn.corpora[place % turn.corpora.size()], turn.base + place / turn.corpora.size()};
}

HeldOutReader::Place HeldOutReader::PlaceOf(uint64_t sample) const {
  const auto [corpus, number] = CorpusOf(sample);
  const std::vector<Shard>& shards = shards_[corpus];
  const auto after = std::upper_bound(shards.begin(), shards.end(), number,
                                      [](uint64_t n, const Shard& shard) { return n < shard.first_sample; });
  const Shard& shard = *std::prev(after);
  return {.corpus = corpus, .file = shard.file, .token = (number - shard.first_sample) * sequence_length_};
}

absl::StatusOr<SampleBatch> HeldOutReader::Read(uint64_t first, uint32_t count) {
  if (first > samples_ || count > samples_ - first) {
    return absl::OutOfRangeError(absl::StrCat("held-out samples [", first, ", ", first + count, ") of ", samples_));
  }
  SampleBatch out;
  out.samples = count;
  const size_t length = size_t{sequence_length_} + 1;
  out.tokens.resize(count * length);
  for (uint32_t i = 0; i < count; ++i) {
    const Place at = PlaceOf(first + i);
    ATOLL_RETURN_IF_ERROR(
        memory_.ReadTokens(at.corpus, at.file, at.token, std::span(out.tokens).subspan(i * length, length)));
  }
  return out;
}

double HeldOutReader::BytesPerToken(uint64_t first, uint64_t count) const {
  const uint64_t from = std::min(first, samples_), to = std::min(first + count, samples_);
  return from == to ? 0 : (BytesPerTokenUpTo(to) - BytesPerTokenUpTo(from)) / static_cast<double>(to - from);
}

double HeldOutReader::BytesPerTokenUpTo(uint64_t limit) const {
  double bytes = 0;
  for (size_t t = 0; t < turns_.size() && turns_[t].first < limit; ++t) {
    const uint64_t end = t + 1 < turns_.size() ? std::min(limit, turns_[t + 1].first) : limit;
    const size_t corpora = turns_[t].corpora.size();
    for (size_t c = 0; c < corpora; ++c) {
      const CorpusTotals& totals = (*manifests_)[turns_[t].corpora[c]].Totals(split_);
      if (totals.tokens == 0 || totals.text_bytes == 0) return 0;
      const uint64_t taken = (end - turns_[t].first + corpora - 1 - c) / corpora;
      bytes += static_cast<double>(taken) * static_cast<double>(totals.text_bytes) / static_cast<double>(totals.tokens);
    }
  }
  return bytes;
}

}  // namespace atl
