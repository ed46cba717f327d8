// SPDX-License-Identifier: Apache-2.0
// The order of samples: a seeded, two-level permutation. Every sample counts once for any number of
// workers, and a lease (a range of positions) reads few bytes outside of its samples
// (docs/design.md section 7, "Data"). A pure function of the job file and the corpora's shapes. A position costs
// O(log blocks), or O(blocks) if its epoch is not one of the two in the cache for that corpus.
//
// Position i of the job's order -> corpus by weights (a fixed, evenly spread pattern; with
// data.assignment: shards by the upper bits of i, see shards.h) -> position in that corpus' endless
// sequence of epochs -> blocks permuted by (seed, epoch) -> samples permuted inside a window of W
// blocks -> (shard, token).
#ifndef ATOLL_COMMON_PLAN_DATA_ORDER_H_
#define ATOLL_COMMON_PLAN_DATA_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

constexpr uint64_t kBlockBytes = uint64_t{1}
                                 << 20;  // block of a shard's token area; the unit of fetch, hash and shuffle

// Shape of a corpus: its name and weight in the job, the sizes from its manifest.
struct CorpusShape {
  std::string name;
  uint32_t weight = 1;
  uint32_t bytes_per_token = 2;
  std::vector<uint64_t> shard_tokens;  // tokens of each training shard, in manifest order
};

// Location of a sample: T + 1 tokens of one shard (the last target overlaps the next sample's first
// input).
struct SampleLocation {
  uint32_t corpus = 0;
  uint32_t shard = 0;
  uint64_t token = 0;  // first token in the shard's token area
  uint64_t epoch = 0;
};

// Copies share one cache of epochs. Thread-safe.
class DataOrder {
 public:
  // InvalidArgument without a corpus, or when a corpus has no shard that holds T + 1 tokens.
  static absl::StatusOr<DataOrder> Create(const DataSpec& spec, std::vector<CorpusShape> corpora);

  // Returns the sample at a position of the job's order. Any position is valid; epochs repeat
  // forever.
  SampleLocation At(uint64_t position) const;
  // Number of samples in one epoch of corpus `corpus`: sum over shards of floor((tokens - 1) / T).
  uint64_t SamplesPerEpoch(uint32_t corpus) const;
  // Number of positions after which each corpus has been read at least `epochs` times: the size of the dataset with
  // max_epochs. Not for data.assignment: shards, where max_epochs is refused.
  uint64_t PositionsForEpochs(double epochs) const;
  uint32_t sequence_length() const { return sequence_length_; }

 private:
  // The samples that begin in one block of a shard; never empty.
  struct Block {
    uint32_t shard = 0;
    uint32_t samples = 0;
    uint64_t first_sample = 0;  // index in its shard
  };
  struct Corpus {
    CorpusShape shape;
    uint64_t key = 0;           // key of this corpus' permutations
    uint64_t samples = 0;       // in one epoch
    uint32_t per_period = 0;    // number of this corpus' slots in the pattern
    std::vector<Block> blocks;  // in manifest order
  };
  struct Epoch;
  struct EpochCache;
  DataOrder() = default;
  static absl::StatusOr<Corpus> MakeCorpus(const DataSpec& spec, CorpusShape shape);
  void MakePattern();
  std::pair<uint32_t, uint64_t> Split(uint64_t position) const;
  std::shared_ptr<const Epoch> EpochOf(uint32_t corpus, uint64_t epoch) const;

  bool pinned_ = false;  // each corpus has its own positions (shards.h); the pattern is unused
  uint32_t sequence_length_ = 0;
  uint32_t window_blocks_ = 1;
  std::vector<Corpus> corpora_;
  std::vector<uint32_t> pattern_;  // corpus of each slot of one period of the weights
  std::vector<uint32_t> ranks_;    // slot -> number of earlier slots of the period with the same corpus
  std::shared_ptr<EpochCache> cache_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_DATA_ORDER_H_
