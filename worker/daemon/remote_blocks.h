// SPDX-License-Identifier: Apache-2.0
// Fetches blocks of the job's corpora over the bulk connection; chooses per corpus between fetching and local files.
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

// Downloads a file of at most `limit_bytes` from the coordinator by its hash, and checks the hash.
// An interrupted download resumes as long as each attempt makes progress; else Unavailable, after
// which the caller may retry for as long as it needs the file (TransferFailure::kOutage). A broken
// transfer, or one with another hash (DataLoss), is tried kDownloadAttempts times in all, with
// `pauses` between. Cancelled when `stop` is requested.
absl::StatusOr<std::string> DownloadBlob(BulkClient& client, const Sha256& sha256, const WorkerId& worker,
                                         uint64_t limit_bytes, const std::stop_token& stop = {},
                                         const BackoffOptions& pauses = {});

// Fetches each block from the coordinator. Thread-safe. A fetch blocks at most while its only frame and its
// answer may stall (BulkClientOptions::stall_limit each), and not after Stop, which cancels all fetches. A
// limit from size and rate, with a minimum of a minute, would not be shorter. Unavailable in an outage, and
// for a broken block until kDownloadAttempts fetches of it have failed in sequence: the reader pauses between
// them.
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
  std::map<BlockId, int> broken_ ATOLL_GUARDED_BY(mutex_);  // consecutive broken fetches
};

// Reads each corpus from its source in `sources`, which outlive this object. `not_local`: for each corpus the reason
// why it is not read from local files, empty if it is. A NotFound for a block includes this reason.
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
