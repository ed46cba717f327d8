// SPDX-License-Identifier: Apache-2.0
// Reads samples in the order of the job's leases: position -> DataOrder -> block -> tokens. One thread reads ahead
// into a bounded queue. The cursor counts samples returned by Next, not those read ahead, so that a crash skips none
// of them. BlocksAhead prefetches the blocks of leased samples if the source can keep them.
#ifndef ATOLL_WORKER_DATA_SAMPLE_READER_H_
#define ATOLL_WORKER_DATA_SAMPLE_READER_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/data_order.h"
#include "common/plan/messages.h"
#include "worker/data/block_source.h"

namespace atl {

// Blocks in memory, evicted least recently used first. Not thread-safe.
class BlockMemory {
 public:
  // `source` outlives it. Keeps at most `blocks` blocks (at least 2) of kBlockBytes.
  BlockMemory(BlockSource& source, CorpusManifests manifests, size_t blocks);
  // Tokens [first, first + out.size()) of file `file` of the corpus. OutOfRange if they are beyond the end of the
  // file; otherwise the errors of the source.
  absl::Status ReadTokens(uint32_t corpus, uint32_t file, uint64_t first, std::span<int32_t> out);

 private:
  absl::StatusOr<const std::string*> Block(const BlockId& id);
  BlockSource& source_;
  const CorpusManifests manifests_;
  const size_t limit_;
  std::list<std::pair<BlockId, std::string>> recent_;  // newest first
  std::map<BlockId, std::list<std::pair<BlockId, std::string>>::iterator> index_;
};

struct SampleReaderOptions {
  size_t prefetch_samples = 64;  // limit of samples read ahead; at least one
  size_t memory_blocks = 0;      // 1 MiB each; 0: corpora x (window_blocks + 2), at most 256
  size_t ahead_blocks = 0;       // limit of leased samples' blocks that the source keeps ahead; 0: none
};

// Samples returned together, in order.
struct SampleBatch {
  std::vector<int32_t> tokens;  // samples x (T + 1), row-major
  uint32_t samples = 0;
  std::vector<LeaseCursor> cursors;  // of every current lease, after these samples
};

// Thread-safe; one thread takes samples.
class SampleReader {
 public:
  // InvalidArgument if the number of manifests differs from the job's corpora, or if a corpus has no training shard
  // of at least one sample. `source` and `clock` outlive the reader, which owns at most two threads.
  static absl::StatusOr<std::unique_ptr<SampleReader>> Create(const DataSpec& data, CorpusManifests manifests,
                                                              BlockSource& source, const Clock& clock,
                                                              const SampleReaderOptions& options = {});
  ~SampleReader();
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;

  // Adds a lease. Leases are read in the order of their addition. `cursor` is the first position to
  // read (range.begin for a new lease). A lease that is already present stays unchanged.
  // InvalidArgument if the cursor is outside the range.
  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor);
  // Drops a lease and its samples read ahead; unknown leases are ignored.
  void RemoveLease(LeaseId lease);
  // The cursors of all leases, in reading order; a fully read lease stays until it is removed.
  std::vector<LeaseCursor> Cursors() const;
  // The number of leased positions not yet returned by Next.
  uint64_t Remaining() const;

  // Returns the next `samples` samples. FailedPrecondition at once if fewer are leased (nothing is
  // taken). DeadlineExceeded after `limit` (nothing is taken, samples read so far stay), with the
  // source's last retryable error as the reason. Any other error of the source is returned once,
  // FailedPrecondition as Internal; the next call tries the sample again.
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration limit);
  // The total time that Next has waited, by `clock`.
  Duration waited() const;

  const DataOrder& order() const;

 private:
  struct State;
  explicit SampleReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads the held-out samples (or, for a check, those of the training split) in sequence: sample i
// of [0, samples()) is T + 1 tokens. Corpora that still have samples take turns. Within a corpus
// the shards follow each other; sample k of a shard begins at token k T.
class HeldOutReader {
 public:
  // `source` outlives it. InvalidArgument if no corpus has a sample.
  static absl::StatusOr<std::unique_ptr<HeldOutReader>> Create(uint32_t sequence_length, CorpusManifests manifests,
                                                               BlockSource& source,
                                                               CorpusSplit split = CorpusSplit::kHeldOut);
  uint64_t samples() const { return samples_; }
  // Samples [first, first + count), T + 1 tokens each. OutOfRange beyond samples(); errors of the source.
  absl::StatusOr<SampleBatch> Read(uint64_t first, uint32_t count);
  // Mean bytes of text per token of the samples [first, first + count), from the manifests' totals;
  // 0 if unknown.
  double BytesPerToken(uint64_t first, uint64_t count) const;

 private:
  HeldOutReader(uint32_t sequence_length, CorpusManifests manifests, BlockSource& source, CorpusSplit split);
  struct Place {
    uint32_t corpus = 0, file = 0;
    uint64_t token = 0;
  };
  // Sum over the samples [0, limit) of their mean bytes per token; 0 if unknown.
  double BytesPerTokenUpTo(uint64_t limit) const;
  Place PlaceOf(uint64_t sample) const;

  // From sample `first` on, `corpora` take turns, each starting at its sample `base`.
  struct Turn {
    uint64_t first = 0, base = 0;
    std::vector<uint32_t> corpora;
  };
  // A shard of the split with at least one sample.
  struct Shard {
    uint32_t file = 0;
    uint64_t first_sample = 0;  // in the corpus
  };
  void PlanTurns(const std::vector<uint64_t>& corpus_samples);
  // The corpus of sample `sample`, and its number there.
  std::pair<uint32_t, uint64_t> CorpusOf(uint64_t sample) const;

  const uint32_t sequence_length_;
  const CorpusManifests manifests_;
  const CorpusSplit split_;
  BlockMemory memory_;
  uint64_t samples_ = 0;
  std::vector<Turn> turns_;
  std::vector<std::vector<Shard>> shards_;  // by corpus
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_SAMPLE_READER_H_
