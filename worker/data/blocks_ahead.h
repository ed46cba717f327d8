// SPDX-License-Identifier: Apache-2.0
// Blocks of leased samples, fetched before a sample of them is read, so that a worker that streams its corpus goes on
// over an outage for as long as its leases last (docs/invariants.md, I28).
#ifndef ATOLL_WORKER_DATA_BLOCKS_AHEAD_H_
#define ATOLL_WORKER_DATA_BLOCKS_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/plan/data_order.h"
#include "common/plan/messages.h"
#include "worker/data/block_source.h"

namespace atl {

// The blocks that hold the samples of `ranges`, each once, in the order in which they are needed; `limit` at most.
std::vector<BlockId> BlocksOf(const std::vector<SampleRange>& ranges, size_t limit, const DataOrder& order,
                              const std::vector<CorpusManifest>& manifests);

// Has a source keep the blocks of what is leased, one after another, and rests after each for as long as its fetch
// took: at most half of a link that carries updates too. Owns one thread. Thread-safe.
class BlocksAhead {
 public:
  // `source` and `clock` outlive it. Keeps `limit` blocks ahead at most.
  BlocksAhead(BlockSource& source, DataOrder order, CorpusManifests manifests, const Clock& clock, size_t limit);
  ~BlocksAhead();
  BlocksAhead(const BlocksAhead&) = delete;
  BlocksAhead& operator=(const BlocksAhead&) = delete;

  // What is leased and not read, in the order of reading, in place of what was wanted before.
  void Want(std::vector<SampleRange> unread);

 private:
  void Run() ATOLL_EXCLUDES(mutex_);
  // Keeps them, until something else is wanted.
  void Keep(const std::vector<BlockId>& blocks, uint64_t wish) ATOLL_REQUIRES(mutex_);
  bool Holds(uint64_t wish) const ATOLL_REQUIRES(mutex_) { return !stopping_ && wish == wish_; }
  // Until `limit` has passed or something else is wanted.
  void Rest(Duration limit, uint64_t wish) ATOLL_REQUIRES(mutex_);

  BlockSource& source_;
  const DataOrder order_;
  const CorpusManifests manifests_;
  const Clock& clock_;
  const size_t limit_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<SampleRange> unread_ ATOLL_GUARDED_BY(mutex_);
  uint64_t wish_ ATOLL_GUARDED_BY(mutex_) = 0;  // counts the calls of Want
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCKS_AHEAD_H_
