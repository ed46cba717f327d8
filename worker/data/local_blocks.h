// SPDX-License-Identifier: Apache-2.0
// Blocks of shards on the worker's own disks, below its data root only.
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

// Shards below a data root. A corpus is searched in `<data root>/<directory>`, then in the data
// root itself. Shard names come from the manifest and must be plain names; a symbolic link that
// leads out of the root is refused.
class LocalBlockSource final : public BlockSource {
 public:
  // `directories` has one relative path per corpus: InvalidArgument for another number, PermissionDenied for a path
  // that is absolute or has "..". NotFound if the root is not a directory. `files` outlives the source.
  static absl::StatusOr<std::unique_ptr<LocalBlockSource>> Create(const Files& files, std::string data_root,
                                                                  CorpusManifests manifests,
                                                                  std::vector<std::string> directories);
  // OK if every file of the corpus' training split exists with the manifest's length; contents are checked per block
  // when read. Otherwise an error with the reason, such as NotFound, InvalidArgument or PermissionDenied.
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
  // The open shards, at most kOpenShards; the shard that was opened first is closed first.
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<TokenShard>> shards_ ATOLL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint32_t, uint32_t>> opened_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_LOCAL_BLOCKS_H_
