// SPDX-License-Identifier: Apache-2.0
#include "common/plan/shards.h"

#include <algorithm>

namespace atl {

SampleRange ShardRange(uint32_t corpus) { return {corpus * kShardPositions, (corpus + uint64_t{1}) * kShardPositions}; }

std::optional<uint32_t> ShardOf(std::span<const LeaseCursor> cursors) {
  const auto newest = std::max_element(cursors.begin(), cursors.end());
  if (newest == cursors.end()) return std::nullopt;
  return static_cast<uint32_t>(newest->cursor / kShardPositions);
}

uint64_t ShardSamples(const JobSpec& spec, const ContributionHeader& header) {
  const std::vector<CorpusSpec>& corpora = spec.data.corpora;
  if (!spec.data.pin_shards || corpora.empty()) return 0;
  const std::optional<uint32_t> shard = ShardOf(header.cursors);
  if (shard && *shard < corpora.size()) return corpora[*shard].samples;
  uint64_t all = 0;
  for (const CorpusSpec& corpus : corpora) all += corpus.samples;
  return all / corpora.size();
}

}  // namespace atl
