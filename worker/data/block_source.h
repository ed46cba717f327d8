// Where the bytes of token shards come from: files below the worker's data root, or the coordinator, with a bounded cache
// on disk in between. A block is kBlockBytes of a shard's token area (the last one shorter), named by corpus, shard and
// index, and checked against the manifest's SHA-256 by whoever hands it out.
#ifndef ATOLL_WORKER_DATA_BLOCK_SOURCE_H_
#define ATOLL_WORKER_DATA_BLOCK_SOURCE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/format/token_shard.h"

namespace atl {

// A block of one file of a corpus of the job.
struct BlockId {
  uint32_t corpus = 0;  // index into the job's corpora
  uint32_t file = 0;    // index into CorpusManifest::files: training and held-out shards in one count
  uint32_t block = 0;
  friend auto operator<=>(const BlockId&, const BlockId&) = default;
};

// The corpora of a job, in the job's order. Immutable while shared.
using CorpusManifests = std::shared_ptr<const std::vector<CorpusManifest>>;

// Size of a block, and its hash, by the manifest. Requires an id that is in the manifests.
uint64_t BlockSizeBytes(const CorpusManifest& manifest, const BlockId& id);
const Sha256& BlockHash(const CorpusManifest& manifest, const BlockId& id);

// Implementations are thread-safe and may block, within a limit of their own; they return exactly the block's bytes with
// the manifest's hash, or an error: NotFound (names the shard, where it was looked for and what to do), DataLoss (shard,
// block, expected and actual hash), Unavailable (worth trying again).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual absl::StatusOr<std::string> FetchBlock(const BlockId& id) = 0;
};

// Shards that lie below a data root. A corpus is looked for in `<data root>/<directory>`, then, when its files are not
// there, in the data root itself; shard names come from the manifest, are plain names, and a symbolic link that leads out
// of the root is refused.
class LocalBlockSource final : public BlockSource {
 public:
  // `directories` has one relative path a corpus. PermissionDenied for a path that is absolute, has "..", or leads out
  // of the root; NotFound when the root is not there. `files` outlives the source.
  static absl::StatusOr<std::unique_ptr<LocalBlockSource>> Create(const Files& files, std::string data_root,
                                                                  CorpusManifests manifests,
                                                                  std::vector<std::string> directories);
  // True when every file of the corpus' training split is there with the manifest's length; contents are checked block
  // by block when read. The reason why not is NotFound or InvalidArgument.
  absl::Status CheckCorpus(uint32_t corpus) const;
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override ATOLL_EXCLUDES(mutex_);

 private:
  LocalBlockSource(const Files& files, std::string root, CorpusManifests manifests, std::vector<std::string> directories);
  absl::StatusOr<std::string> PathOf(uint32_t corpus, uint32_t file) const;
  absl::StatusOr<std::shared_ptr<TokenShard>> ShardOf(uint32_t corpus, uint32_t file) ATOLL_EXCLUDES(mutex_);

  const Files& files_;
  const std::string root_;  // canonical
  const CorpusManifests manifests_;
  const std::vector<std::string> directories_;
  Mutex mutex_;
  // At most kOpenShards; the oldest is closed first.
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<TokenShard>> shards_ ATOLL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint32_t, uint32_t>> opened_ ATOLL_GUARDED_BY(mutex_);
};

// Keeps what `inner` fetches in a directory, one file a block, named by its SHA-256, at most `limit_bytes`; the least
// recently used go first. A damaged file is fetched again. Finds what an earlier process left there. Only one process
// may use the directory.
class CachedBlockSource final : public BlockSource {
 public:
  // `files` and `inner` outlive the cache. The directory is created.
  static absl::StatusOr<std::unique_ptr<CachedBlockSource>> Create(Files& files, std::string directory,
                                                                   uint64_t limit_bytes, CorpusManifests manifests,
                                                                   BlockSource& inner);
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override ATOLL_EXCLUDES(mutex_);
  uint64_t used_bytes() const ATOLL_EXCLUDES(mutex_);

 private:
  CachedBlockSource(Files& files, std::string directory, uint64_t limit_bytes, CorpusManifests manifests,
                    BlockSource& inner);
  absl::StatusOr<std::string> ReadCached(const Sha256& hash, uint64_t size) ATOLL_REQUIRES(mutex_);
  void Keep(const Sha256& hash, const std::string& bytes) ATOLL_REQUIRES(mutex_);
  void MakeRoom(uint64_t bytes) ATOLL_REQUIRES(mutex_);
  void Forget(const Sha256& hash) ATOLL_REQUIRES(mutex_);

  struct Entry {
    uint64_t bytes = 0;
    uint64_t used = 0;  // stamp of the last use
  };
  Files& files_;
  const std::string directory_;
  const uint64_t limit_bytes_;
  const CorpusManifests manifests_;
  BlockSource& inner_;
  mutable Mutex mutex_;
  std::map<Sha256, Entry> entries_ ATOLL_GUARDED_BY(mutex_);
  std::map<uint64_t, Sha256> by_use_ ATOLL_GUARDED_BY(mutex_);
  uint64_t stamp_ ATOLL_GUARDED_BY(mutex_) = 0;
  uint64_t used_bytes_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCK_SOURCE_H_
