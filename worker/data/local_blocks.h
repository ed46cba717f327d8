// SPDX-License-Identifier: Apache-2.0
// Blocks of shards that lie on the worker's own disks, below its data root and nowhere else.
#ifndef ATOLL_WORKER_DATA_LOCAL_BLOCKS_H_
#define ATOLL_WORKER_DATA_LOCAL_BLOCKS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "worker/data/block_source.h"

namespace atl {

// Shards that lie below a data root. A corpus is looked for in `<data root>/<directory>`, then, when its files are not
// there, in the data root itself; shard names come from the manifest, are plain names, and a symbolic link that leads
// out of the root is refused.
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
  LocalBlockSource(const Files& files, std::string root, CorpusManifests manifests,
                   std::vector<std::string> directories);
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

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_LOCAL_BLOCKS_H_
