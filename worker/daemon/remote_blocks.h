// SPDX-License-Identifier: Apache-2.0
// Blocks of the job's corpora over the bulk connection, and the choice between them and local files.
#ifndef ATOLL_WORKER_DAEMON_REMOTE_BLOCKS_H_
#define ATOLL_WORKER_DAEMON_REMOTE_BLOCKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/rpc/backoff.h"
#include "common/rpc/bulk.h"
#include "worker/data/block_source.h"

namespace atl {

// A whole file of at most `limit_bytes` that the coordinator keeps by its hash, checked against it. A break is followed
// by what is missing, for as long as each try brings something; else Unavailable, which is worth another try for as
// long as the file is wanted, whenever nothing was said about it (TransferFailure::kOutage). What is broken or has
// another hash (DataLoss) is tried kDownloadAttempts times, with `pauses` between. Cancelled when `stop` is requested.
absl::StatusOr<std::string> DownloadBlob(BulkClient& client, const Sha256& sha256, const WorkerId& worker,
                                         uint64_t limit_bytes, const std::stop_token& stop = {},
                                         const BackoffOptions& pauses = {});

// Asks the coordinator for each block. Thread-safe; a fetch, one frame, blocks no longer than its frames and its answer
// may be silent (BulkClientOptions::stall_limit each), and not beyond Stop, after which all are Cancelled. A limit
// by size and rate, of a minute at least, would be no shorter. Unavailable as for DownloadBlob, and where a block is
// broken, until kDownloadAttempts fetches of it have failed so: the reader pauses between them.
class RemoteBlockSource final : public BlockSource {
 public:
  // `client` outlives it; `hashes` names the manifest of each corpus.
  RemoteBlockSource(BulkClient& client, JobId job, WorkerId worker, CorpusManifests manifests,
                    std::vector<Sha256> hashes);
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override;
  void Stop() { stop_.request_stop(); }

 private:
  absl::StatusOr<std::string> FetchOnce(const BlockId& id);

  BulkClient& client_;
  const JobId job_;
  const WorkerId worker_;
  const CorpusManifests manifests_;
  const std::vector<Sha256> hashes_;
  std::stop_source stop_;
  Mutex mutex_;
  std::map<BlockId, int> broken_ ATOLL_GUARDED_BY(mutex_);  // fetches that have failed so, one after another
};

// One source for each corpus; they outlive it. `not_local` says of each why it is not read from this machine's own
// files, empty where it is: whoever is told that the coordinator has no block either, is told that too.
class BlockSourceByCorpus final : public BlockSource {
 public:
  BlockSourceByCorpus(std::vector<BlockSource*> sources, std::vector<std::string> not_local)
      : sources_(std::move(sources)), not_local_(std::move(not_local)) {}
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override;
  absl::Status KeepBlock(const BlockId& id) override;

 private:
  const std::vector<BlockSource*> sources_;
  const std::vector<std::string> not_local_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_REMOTE_BLOCKS_H_
