// SPDX-License-Identifier: Apache-2.0
// Prefetches the blocks of leased samples, so that a worker that streams its corpus continues
// through an outage until its leases are used up (docs/invariants.md, I28).
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

// The blocks with the samples of `ranges`, each once, in the order of use; at most `limit`.
std::vector<BlockId> BlocksOf(const std::vector<SampleRange>& ranges, size_t limit, const DataOrder& order,
                              const std::vector<CorpusManifest>& manifests);

// Makes a source keep the blocks of leased samples, one after another. After each fetch it pauses for the duration of
// the fetch, so it uses at most half of a link that also carries updates. Retries an unavailable source; any other
// error ends the work for the present Want. Owns one thread. Thread-safe.
class BlocksAhead {
 public:
  // `source` and `clock` outlive it. `limit`: the largest number of blocks that one call of Want keeps.
  BlocksAhead(BlockSource& source, DataOrder order, CorpusManifests manifests, const Clock& clock, size_t limit);
  ~BlocksAhead();
  BlocksAhead(const BlocksAhead&) = delete;
  BlocksAhead& operator=(const BlocksAhead&) = delete;

  // Replaces the wanted ranges: leased and unread, in reading order.
  void Want(std::vector<SampleRange> unread);

 private:
  void Run() ATOLL_EXCLUDES(mutex_);
  // Makes the source keep the blocks of Want number `wish`. Ends early on a newer Want, when stopping, or on an error.
  void Keep(const std::vector<BlockId>& blocks, uint64_t wish) ATOLL_REQUIRES(mutex_);
  bool Holds(uint64_t wish) const ATOLL_REQUIRES(mutex_) { return !stopping_ && wish == wish_; }
  // Waits for the duration `limit`. Returns early on a newer Want, or when this object is destroyed.
  void Rest(Duration limit, uint64_t wish) ATOLL_REQUIRES(mutex_);

  BlockSource& source_;
  const DataOrder order_;
  const CorpusManifests manifests_;
  const Clock& clock_;
  const size_t limit_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<SampleRange> unread_ ATOLL_GUARDED_BY(mutex_);
  uint64_t wish_ ATOLL_GUARDED_BY(mutex_) = 0;  // number of calls of Want
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCKS_AHEAD_H_
