// SPDX-License-Identifier: Apache-2.0
// The bigram baseline of a corpus: what a model must beat to have learned more than which token follows which.
//   p1(b)   = (c(b) + 1) / (N + V)                                  add-one unigram
//   p(b|a)  = (c(a,b) + f(a) p1(b)) / (c(a) + f(a))                 Witten-Bell interpolation (IEEE Trans. IT 37(4),
//   1991)
// with c counts in train, c(a) pairs that begin with a, f(a) distinct followers of a, N train tokens, V vocabulary
// size. Pairs do not cross shards. perplexity = exp(-mean log p(b|a)) over all held-out tokens but the first of each
// shard.
#ifndef ATOLL_COMMON_FORMAT_BIGRAM_H_
#define ATOLL_COMMON_FORMAT_BIGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"

namespace atl {

// Not thread-safe. Memory: 20 B a token of the vocabulary and about 40 B a distinct pair, at most kPairs pairs; from
// the moment the table is full, Count ignores further text.
class BigramModel {
 public:
  static constexpr size_t kPairs = size_t{1} << 22;
  explicit BigramModel(uint32_t vocab_size, size_t max_pairs = kPairs);
  // A stretch of consecutive tokens; ids must be below the vocabulary size. With `continues` its first token follows
  // the last one of the call before. False when the table was full and the text was ignored.
  bool Count(std::span<const uint32_t> ids, bool continues);
  // Sum of -log p over the same kind of stretch, in nats; `scored` grows by the number of tokens predicted.
  double Score(std::span<const uint32_t> ids, uint64_t& scored) const;
  double Probability(uint32_t before, uint32_t token) const;
  uint64_t counted_tokens() const { return total_; }

 private:
  uint32_t vocab_size_;
  size_t max_pairs_;
  uint64_t total_ = 0;
  uint32_t last_ = 0;
  bool has_last_ = false;
  std::vector<uint64_t> unigrams_;   // c(b)
  std::vector<uint64_t> begins_;     // c(a)
  std::vector<uint32_t> followers_;  // f(a)
  std::unordered_map<uint64_t, uint64_t> pairs_;
};

// Counts on the train shards and measures on the held-out shards of `directory`. FailedPrecondition when either split
// is empty; InvalidArgument when a token is not below the vocabulary size.
absl::StatusOr<BigramBaseline> MeasureBigram(const Files& files, const std::string& directory,
                                             const CorpusManifest& manifest);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_BIGRAM_H_
