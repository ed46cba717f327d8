// SPDX-License-Identifier: Apache-2.0
// The bigram baseline of a corpus: a model that does not beat it has learned no more than which
// token follows which.
//   p1(b)   = (c(b) + 1) / (N + V)                     add-one unigram
//   p(b|a)  = (c(a,b) + f(a) p1(b)) / (c(a) + f(a))    Witten-Bell interpolation (IEEE Trans. IT 37(4), 1991)
// with c counts in train, c(a) pairs that begin with a, f(a) distinct followers of a, N train
// tokens, V vocabulary size. Pairs do not cross shards. perplexity = exp(-mean log p(b|a)) over all
// held-out tokens except the first of each shard.
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

// Not thread-safe. Memory: 20 B per token of the vocabulary and about 40 B per distinct pair. Once the table holds
// `max_pairs` pairs, further calls of Count are ignored; the call that fills it is counted completely.
class BigramModel {
 public:
  static constexpr size_t kPairs = size_t{1} << 22;
  explicit BigramModel(uint32_t vocab_size, size_t max_pairs = kPairs);
  // Counts consecutive tokens; ids must be below the vocabulary size. With `continues` the first
  // token follows the last one of the previous call. Returns false when the table was full and the
  // text was ignored.
  bool Count(std::span<const uint32_t> ids, bool continues);
  // Returns the sum of -log p over consecutive tokens, in nats, and adds the number of predicted
  // tokens to `scored`.
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

// Counts the train shards and scores the held-out shards of `directory`. FailedPrecondition when either split is
// empty or no held-out shard has two tokens; InvalidArgument for a token that is not below the vocabulary size.
absl::StatusOr<BigramBaseline> MeasureBigram(const Files& files, const std::string& directory,
                                             const CorpusManifest& manifest);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_BIGRAM_H_
