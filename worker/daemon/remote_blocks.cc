// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/remote_blocks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/stop_wait.h"
#include "common/base/system_random.h"
#include "common/plan/data_order.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/transfer_failure.h"

namespace atl {
namespace {

class StringSink final : public BulkSink {
 public:
  explicit StringSink(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  absl::Status OnHeader(const DownloadHeader& header) override {
    if (header.total_bytes > limit_bytes_) {
      return absl::InvalidArgumentError(absl::StrCat("the coordinator announces ", header.total_bytes,
                                                     " bytes, but at most ", limit_bytes_, " are possible"));
    }
    total_bytes_ = header.total_bytes;
    return absl::OkStatus();
  }
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override {
    if (offset != text_.size() || text_.size() + bytes.size() > total_bytes_) {
      return absl::DataLossError("bytes arrived out of order");
    }
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  uint64_t bytes() const { return text_.size(); }
  std::string Take() { return std::move(text_); }

 private:
  const uint64_t limit_bytes_;
  uint64_t total_bytes_ = 0;
  std::string text_;
};

// Downloads into `sink`, from its present size on. Cancelled once `stop` is requested, Unavailable for an outage.
absl::Status DownloadOnto(BulkClient& client, const DownloadKey& key, const WorkerId& worker,
                          const std::shared_ptr<StringSink>& sink, const std::stop_token& stop) {
  const absl::Status status = DownloadAndWait(client, DownloadRequest{key, sink->bytes(), worker}, sink, stop).status;
  if (status.ok()) return status;
  if (stop.stop_requested()) return absl::CancelledError("the worker is leaving");
  // The status codes of an outage have other meanings for a job: too little memory, or a stop.
  if (FailureOf(status) == TransferFailure::kOutage) return absl::UnavailableError(status.message());
  return status;
}

absl::StatusOr<std::string> DownloadOnce(BulkClient& client, const DownloadKey& key, const WorkerId& worker,
                                         uint64_t limit_bytes, const std::stop_token& stop) {
  const auto sink = std::make_shared<StringSink>(limit_bytes);
  ATOLL_RETURN_IF_ERROR(DownloadOnto(client, key, worker, sink, stop));
  return sink->Take();
}

}  // namespace

absl::StatusOr<std::string> DownloadBlob(BulkClient& client, const Sha256& sha256, const WorkerId& worker,
                                         uint64_t limit_bytes, const std::stop_token& stop,
                                         const BackoffOptions& pauses) {
  Backoff backoff(pauses, SystemRandomBits());
  auto sink = std::make_shared<StringSink>(limit_bytes);
  for (int tries = 1;;) {
    const uint64_t before = sink->bytes();
    absl::Status status = DownloadOnto(client, BlobKey{sha256}, worker, sink, stop);
    const bool moved = absl::IsUnavailable(status) && sink->bytes() > before;
    if (status.ok()) {
      std::string text = sink->Take();
      if (Sha256Of(AsBytes(text)) == sha256) return text;
      status = absl::DataLossError("has another SHA-256 than in the job");
    }
    const bool broken = FailureOf(status) == TransferFailure::kBroken;
    if (!moved && (!broken || tries == kDownloadAttempts)) return status;
    if (broken) {
      sink = std::make_shared<StringSink>(limit_bytes);
      ++tries;
    }
    WaitForStop(stop, backoff.Next());
    if (moved) backoff.Reset();
  }
}

RemoteBlockSource::RemoteBlockSource(BulkClient& client, JobId job, WorkerId worker, CorpusManifests manifests,
                                     std::vector<Sha256> hashes)
    : client_(client),
      job_(std::move(job)),
      worker_(std::move(worker)),
      manifests_(std::move(manifests)),
      hashes_(std::move(hashes)) {}

absl::StatusOr<std::string> RemoteBlockSource::FetchBlock(const BlockId& id) {
  ATOLL_RETURN_IF_ERROR(CheckBlockId(*manifests_, id));
  auto bytes = FetchOnce(id);
  const bool broken = !bytes.ok() && FailureOf(bytes.status()) == TransferFailure::kBroken;
  const MutexLock lock(mutex_);
  if (broken && ++broken_[id] < kDownloadAttempts) return absl::UnavailableError(bytes.status().message());
  if (bytes.ok() || broken) broken_.erase(id);
  return bytes;
}

absl::StatusOr<std::string> RemoteBlockSource::FetchOnce(const BlockId& id) {
  const CorpusManifest& manifest = (*manifests_)[id.corpus];
  const std::string& shard = manifest.files[id.file].name;
  auto bytes = DownloadOnce(client_, BlockKey{job_, hashes_[id.corpus], shard, id.block}, worker_, kBlockBytes,
                            stop_.get_token());
  if (!bytes.ok()) {
    return Annotate(bytes.status(), absl::StrCat("block ", id.block, " of shard ", shard, " from the coordinator"));
  }
  ATOLL_RETURN_IF_ERROR(CheckBlock(manifest, id, *bytes, "the coordinator"));
  return bytes;
}

absl::Status BlockSourceByCorpus::KeepBlock(const BlockId& id) {
  if (id.corpus >= sources_.size()) return absl::InvalidArgumentError("no such corpus in this job");
  return sources_[id.corpus]->KeepBlock(id);
}

absl::StatusOr<std::string> BlockSourceByCorpus::FetchBlock(const BlockId& id) {
  if (id.corpus >= sources_.size()) return absl::InvalidArgumentError("no such corpus in this job");
  absl::StatusOr<std::string> block = sources_[id.corpus]->FetchBlock(id);
  const std::string& not_local = not_local_[id.corpus];
  if (!absl::IsNotFound(block.status()) || not_local.empty()) return block;
  return absl::NotFoundError(
      absl::StrCat(block.status().message(), "; it is also missing at this worker: ", not_local));
}

}  // namespace atl
