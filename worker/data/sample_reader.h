// SPDX-License-Identifier: Apache-2.0
// Samples in the order of the job's leases: position -> DataOrder -> block -> tokens, read ahead by one thread into a
// bounded queue. What has been handed out is the cursor; what was read ahead is not, so a crash repeats nothing. The
// blocks of what is leased are kept ahead of it (BlocksAhead), where the source has a place for them.
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

// Blocks in memory, least recently used out first. Not thread-safe.
class BlockMemory {
 public:
  // `source` outlives it. Keeps at most `blocks` (at least 2) of kBlockBytes.
  BlockMemory(BlockSource& source, CorpusManifests manifests, size_t blocks);
  // Tokens [first, first + out.size()) of file `file` of the corpus. OutOfRange beyond its end; errors of the source.
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
  size_t prefetch_samples = 64;  // read ahead at most; at least one
  size_t memory_blocks = 0;      // 1 MiB each; 0: corpora x (window_blocks + 2), at most 256
  size_t ahead_blocks = 0;       // of leased samples, kept by the source at most; 0: none
};

// Samples handed out together, in order.
struct SampleBatch {
  std::vector<int32_t> tokens;  // samples x (T + 1), row-major
  uint32_t samples = 0;
  std::vector<LeaseCursor> cursors;  // every lease still held, after these samples
};

// Thread-safe; one thread takes samples.
class SampleReader {
 public:
  // InvalidArgument as ShapesOf and DataOrder::Create. `source` and `clock` outlive the reader, which owns two threads
  // at most.
  static absl::StatusOr<std::unique_ptr<SampleReader>> Create(const DataSpec& data, CorpusManifests manifests,
                                                              BlockSource& source, const Clock& clock,
                                                              const SampleReaderOptions& options = {});
  ~SampleReader();
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;

  // Leases are read in the order in which they are added; `cursor` is the first position to read (range.begin of a new
  // lease). A lease already held is left as it is. InvalidArgument when the cursor lies outside the range.
  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor);
  // Forgets a lease and what was read ahead of it; unknown ones are ignored.
  void RemoveLease(LeaseId lease);
  // Of every lease held, in the order of reading; a lease read to its end stays until it is removed.
  std::vector<LeaseCursor> Cursors() const;
  // Positions leased and not handed out.
  uint64_t Remaining() const;

  // The next `samples` samples. FailedPrecondition at once when fewer are leased (nothing is taken);
  // DeadlineExceeded after `limit` (nothing is taken, what was read stays), with the last error of the source as the
  // reason if it is worth trying again. Any other error of the source is returned once, one that is
  // FailedPrecondition there as Internal, and the sample is tried again at the next call.
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration limit);
  // Time that Next has waited, in all, by `clock`.
  Duration waited() const;

  const DataOrder& order() const;

 private:
  struct State;
  explicit SampleReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Held-out samples (or, for a check, those of the training split) front to back: sample i of [0, samples()) is T + 1
// tokens. They are taken in turn from the corpora that still have some, and within a corpus shard after shard, sample k
// of a shard at token k T.
class HeldOutReader {
 public:
  // `source` outlives it. InvalidArgument when no corpus has a sample.
  static absl::StatusOr<std::unique_ptr<HeldOutReader>> Create(uint32_t sequence_length, CorpusManifests manifests,
                                                               BlockSource& source,
                                                               CorpusSplit split = CorpusSplit::kHeldOut);
  uint64_t samples() const { return samples_; }
  // T + 1 tokens each of samples [first, first + count), which must lie below samples().
  absl::StatusOr<SampleBatch> Read(uint64_t first, uint32_t count);
  // Mean bytes of text behind one token of the samples [first, first + count), by the manifests' totals; 0 when
  // unknown.
  double BytesPerToken(uint64_t first, uint64_t count) const;

 private:
  HeldOutReader(uint32_t sequence_length, CorpusManifests manifests, BlockSource& source, CorpusSplit split);
  struct Place {
    uint32_t corpus = 0, file = 0;
    uint64_t token = 0;
  };
  // Mean bytes behind one token, summed over the samples [0, limit); 0 when unknown.
  double BytesPerTokenUpTo(uint64_t limit) const;
  Place PlaceOf(uint64_t sample) const;

  // From sample `first` on, `corpora` take turns, each from its sample `base` on.
  struct Turn {
    uint64_t first = 0, base = 0;
    std::vector<uint32_t> corpora;
  };
  // A shard of the split that holds a sample.
  struct Shard {
    uint32_t file = 0;
    uint64_t first_sample = 0;  // in the corpus
  };
  void PlanTurns(const std::vector<uint64_t>& corpus_samples);
  // Which corpus sample `sample` comes from, and its number there.
  std::pair<uint32_t, uint64_t> CorpusOf(uint64_t sample) const;

  const uint32_t sequence_length_;
  const CorpusManifests manifests_;
  const CorpusSplit split_;
  BlockMemory memory_;
  uint64_t samples_ = 0;
  std::vector<Turn> turns_;
  std::vector<std::vector<Shard>> shards_;  // of each corpus
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_SAMPLE_READER_H_
