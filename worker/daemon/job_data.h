// SPDX-License-Identifier: Apache-2.0
// The corpora of one job at one worker: manifests by hash from the coordinator; blocks from local
// files below the data root, otherwise from the coordinator through a cache on disk.
#ifndef ATOLL_WORKER_DAEMON_JOB_DATA_H_
#define ATOLL_WORKER_DAEMON_JOB_DATA_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/plan/job_spec.h"
#include "common/rpc/bulk.h"
#include "worker/daemon/remote_blocks.h"
#include "worker/data/block_cache.h"
#include "worker/data/local_blocks.h"
#include "worker/data/sample_reader.h"
#include "worker/session/job.h"

namespace atl {

struct JobDataOptions {
  WorkerId worker;
  std::string data_root;
  std::string cache_dir;
  uint64_t cache_bytes = 0;
  std::stop_token leave = {};  // cancels the fetches of Create
  BackoffOptions pauses = {};  // between attempts of broken fetches
};

class JobData final : public SampleSource {
 public:
  // Blocks while manifests are fetched. NotFound, DataLoss or InvalidArgument name the corpus; Cancelled if the
  // worker is to leave. `bulk`, `files` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<JobData>> Create(const JobDataOptions& options, const JobId& job,
                                                         const DataSpec& data, BulkClient& bulk, Files& files,
                                                         const Clock& clock, Log& log);
  ~JobData() override;
  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) override {
    return reader_->AddLease(lease, range, cursor);
  }
  void RemoveLease(LeaseId lease) override { reader_->RemoveLease(lease); }
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration limit) override { return reader_->Next(samples, limit); }

  BlockSource& blocks() { return *blocks_; }
  const CorpusManifests& manifests() const { return manifests_; }
  // The tokenizer of the first corpus. All corpora of a job have the same tokenizer.
  const CorpusTokenizer& tokenizer() const { return manifests_->front().tokenizer; }
  // End-of-text token of the first corpus' tokenizer.
  std::optional<uint32_t> end_of_text() const { return manifests_->front().tokenizer.eot_id; }

 private:
  JobData() = default;
  absl::Status MakeSources(const JobDataOptions& options, const JobId& job, const DataSpec& data, BulkClient& bulk,
                           Files& files, Log& log);
  CorpusManifests manifests_;
  std::unique_ptr<LocalBlockSource> local_;
  std::unique_ptr<RemoteBlockSource> remote_;
  std::unique_ptr<CachedBlockSource> cached_;
  std::unique_ptr<BlockSourceByCorpus> blocks_;
  std::unique_ptr<SampleReader> reader_;  // destroyed first: its thread reads from the sources
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_JOB_DATA_H_
