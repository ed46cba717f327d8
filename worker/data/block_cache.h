// SPDX-License-Identifier: Apache-2.0
// Caches fetched blocks on disk: a second epoch, or a second run of a worker, fetches only evicted blocks again.
#ifndef ATOLL_WORKER_DATA_BLOCK_CACHE_H_
#define ATOLL_WORKER_DATA_BLOCK_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "worker/data/block_source.h"

namespace atl {

// Caches the blocks of `inner` in a directory, one file per block, named by its SHA-256, at most `limit_bytes`;
// evicts the least recently used. A damaged file is fetched again. Adopts files of an earlier process. Only one
// process may use the directory. A request waits for a running fetch of its block, and fetches only if that fails.
class CachedBlockSource final : public BlockSource {
 public:
  // `files` and `inner` outlive the cache. The directory is created.
  static absl::StatusOr<std::unique_ptr<CachedBlockSource>> Create(Files& files, std::string directory,
                                                                   uint64_t limit_bytes, CorpusManifests manifests,
                                                                   BlockSource& inner);
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override ATOLL_EXCLUDES(mutex_);
  // OK without a fetch if the block is cached or larger than the limit, or if the last write to the cache failed.
  absl::Status KeepBlock(const BlockId& id) override ATOLL_EXCLUDES(mutex_);
  uint64_t used_bytes() const ATOLL_EXCLUDES(mutex_);

 private:
  CachedBlockSource(Files& files, std::string directory, uint64_t limit_bytes, CorpusManifests manifests,
                    BlockSource& inner);
  absl::StatusOr<std::string> ReadCached(const Sha256& hash, uint64_t size) ATOLL_REQUIRES(mutex_);
  // False if the block is not cached.
  bool MarkUsed(const Sha256& hash) ATOLL_REQUIRES(mutex_);
  void Keep(const Sha256& hash, const std::string& bytes) ATOLL_REQUIRES(mutex_);
  void MakeRoom(uint64_t bytes) ATOLL_REQUIRES(mutex_);
  void Forget(const Sha256& hash) ATOLL_REQUIRES(mutex_);

  struct Entry {
    uint64_t bytes = 0;
    uint64_t used = 0;  // sequence number of the last use
  };
  Files& files_;
  const std::string directory_;
  const uint64_t limit_bytes_;
  const CorpusManifests manifests_;
  BlockSource& inner_;
  mutable Mutex mutex_;
  CondVar fetched_;
  std::set<Sha256> fetching_ ATOLL_GUARDED_BY(mutex_);  // blocks that a thread is fetching now
  bool writable_ ATOLL_GUARDED_BY(mutex_) = true;       // whether the last block could be written
  std::map<Sha256, Entry> entries_ ATOLL_GUARDED_BY(mutex_);
  std::map<uint64_t, Sha256> by_use_ ATOLL_GUARDED_BY(mutex_);
  uint64_t stamp_ ATOLL_GUARDED_BY(mutex_) = 0;
  uint64_t used_bytes_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCK_CACHE_H_
