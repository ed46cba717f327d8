// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/bulk_sessions.h"

#include <utility>

#include "common/base/mutex.h"
#include "common/trust/identity.h"

namespace atl {
namespace {

// The job and the kind under which the bytes of a download are counted. Blobs and probes belong to no job.
struct Account {
  JobId job;
  const char* kind = "";
};
Account AccountOf(const DownloadKey& key) {
  struct Visitor {
    Account operator()(const UpdateKey& k) const { return {k.job, "update"}; }
    Account operator()(const FragmentKey& k) const { return {k.job, "fragment"}; }
    Account operator()(const BlockKey& k) const { return {k.job, "block"}; }
    Account operator()(const BlobKey&) const { return {{}, "blob"}; }
    Account operator()(const CheckpointFragmentKey& k) const { return {k.job, "checkpoint"}; }
    Account operator()(const Probe&) const { return {{}, "probe"}; }
  };
  return std::visit(Visitor{}, key);
}

// The upload of one contribution: the engine decides, the data plane stores.
class ContributionSession final : public UploadHandler,
                                  public UploadSink,
                                  public std::enable_shared_from_this<ContributionSession> {
 public:
  ContributionSession(Engine& engine, DataPlane& data, std::string peer)
      : engine_(engine), data_(data), peer_(std::move(peer)) {}

  void OnBegin(UploadHeader header, UploadReply reply) override {
    auto& contribution = std::get<ContributionUpload>(header);
    if (absl::Status may = CheckSpeaksFor(peer_, contribution.header.worker.value); !may.ok()) return reply(may);
    begin_ = std::move(reply);
    upload_ = engine_.OfferUpload(std::move(contribution.header), contribution.boot, shared_from_this());
  }
  void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
    data_.uploads().Append(upload_, offset, std::move(bytes), std::move(reply));
  }
  void OnEnd(StatusReply reply) override {
    {
      MutexLock lock(mutex_);
      end_ = std::move(reply);
    }
    data_.uploads().Finish(upload_, [self = shared_from_this()](const absl::Status& status) { self->Finish(status); });
  }
  void OnBroken(absl::Status why) override { engine_.BreakUpload(upload_, std::move(why)); }

  void Granted(uint64_t offset_bytes) override {
    AnswerBegin(UploadStatus{.resume_offset_bytes = offset_bytes, .accepted = false});
  }
  void Accepted() override {
    if (!AnswerBegin(UploadStatus{.resume_offset_bytes = 0, .accepted = true})) Finish(absl::OkStatus());
  }
  void Refused(const absl::Status& status) override {
    if (!AnswerBegin(status)) Finish(status);
  }

 private:
  // False if the beginning was already answered.
  bool AnswerBegin(absl::StatusOr<UploadStatus> answer) {
    UploadReply reply;
    {
      MutexLock lock(mutex_);
      reply = std::exchange(begin_, nullptr);
    }
    if (!reply) return false;
    reply(std::move(answer));
    return true;
  }
  void Finish(const absl::Status& status) {
    StatusReply reply;
    {
      MutexLock lock(mutex_);
      reply = std::exchange(end_, nullptr);
    }
    if (reply) reply(status);
  }

  Engine& engine_;
  DataPlane& data_;
  const std::string peer_;
  UploadId upload_ = 0;
  Mutex mutex_;
  UploadReply begin_;  // set before OfferUpload, taken under the lock
  StatusReply end_ ATOLL_GUARDED_BY(mutex_);
};

// The upload of one file to the blob store.
class BlobSession final : public UploadHandler, public std::enable_shared_from_this<BlobSession> {
 public:
  explicit BlobSession(DataPlane& data) : data_(data) {}

  void OnBegin(UploadHeader header, UploadReply reply) override {
    blob_ = std::get<BlobUpload>(header);
    data_.blob_io().Post([self = shared_from_this(), reply = std::move(reply)] {
      BlobStore& blobs = self->data_.blobs();
      if (blobs.Has(self->blob_.sha256))
        return reply(UploadStatus{.resume_offset_bytes = self->blob_.bytes, .accepted = true});
      const absl::StatusOr<BlobStore::Begun> begun = self->data_.BeginBlob(self->blob_.sha256, self->blob_.bytes);
      if (!begun.ok()) return reply(begun.status());
      self->turn_ = begun->turn;
      reply(UploadStatus{.resume_offset_bytes = begun->length, .accepted = false});
    });
  }
  void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
    data_.blob_io().Post([self = shared_from_this(), offset, bytes = std::move(bytes), reply = std::move(reply)] {
      reply(self->data_.blobs().Append(self->blob_.sha256, self->turn_, offset, bytes.pieces));
    });
  }
  void OnEnd(StatusReply reply) override {
    data_.blob_io().Post([self = shared_from_this(), reply = std::move(reply)]() mutable {
      const absl::StatusOr<bool> stored = self->data_.blobs().FinishSome(self->blob_.sha256, self->turn_);
      if (stored.ok() && !*stored) return self->OnEnd(std::move(reply));  // again, after the work queued by now
      reply(stored.status());
    });
  }
  void OnBroken(absl::Status) override {
    data_.blob_io().Post([self = shared_from_this()] { self->data_.blobs().Suspend(self->blob_.sha256, self->turn_); });
  }

 private:
  DataPlane& data_;
  BlobUpload blob_;
  uint64_t turn_ = 0;  // used on the blob executor
};

// Bytes that measure a link; they are discarded.
class ProbeSession final : public UploadHandler {
 public:
  void OnBegin(UploadHeader, UploadReply reply) override { reply(UploadStatus{}); }
  void OnBytes(uint64_t, BulkBytes, StatusReply reply) override { reply(absl::OkStatus()); }
  void OnEnd(StatusReply reply) override { reply(absl::OkStatus()); }
  void OnBroken(absl::Status) override {}
};

// Waits for the header, which shows the kind of the upload.
class AnyUpload final : public UploadHandler {
 public:
  AnyUpload(Engine& engine, DataPlane& data, std::string peer) : engine_(engine), data_(data), peer_(std::move(peer)) {}
  void OnBegin(UploadHeader header, UploadReply reply) override {
    const std::optional<Identity> caller = IdentityOfPeer(peer_);
    if (std::holds_alternative<ContributionUpload>(header)) {
      inner_ = std::make_shared<ContributionSession>(engine_, data_, peer_);
    } else if (std::holds_alternative<Probe>(header)) {
      inner_ = std::make_shared<ProbeSession>();
    } else if (caller && caller->role == Role::kWorker) {
      return reply(absl::PermissionDeniedError(
          absl::StrCat("worker '", caller->name, "' may not store files: the call needs the role operator or admin")));
    } else {
      inner_ = std::make_shared<BlobSession>(data_);
    }
    inner_->OnBegin(std::move(header), std::move(reply));
  }
  void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
    inner_->OnBytes(offset, std::move(bytes), std::move(reply));
  }
  void OnEnd(StatusReply reply) override { inner_->OnEnd(std::move(reply)); }
  void OnBroken(absl::Status why) override {
    if (inner_) inner_->OnBroken(std::move(why));
  }

 private:
  Engine& engine_;
  DataPlane& data_;
  const std::string peer_;
  std::shared_ptr<UploadHandler> inner_;
};

}  // namespace

std::shared_ptr<UploadHandler> BulkSessions::NewUpload(std::string peer) {
  return std::make_shared<AnyUpload>(engine_, data_, std::move(peer));
}

void BulkSessions::OnDownload(DownloadRequest request, DownloadReply reply) {
  data_.OpenDownload(request, [this, account = AccountOf(request.key), worker = request.worker,
                               reply = std::move(reply)](absl::StatusOr<DownloadContent> content) {
    if (content.ok()) {
      content->finished = [this, account, worker](const BulkResult& result) {
        engine_.CountDownload(account.job, worker, account.kind, result.payload_bytes);
      };
    }
    reply(std::move(content));
  });
}

void BulkSessions::OnMissingBlobs(std::vector<Sha256> blobs,
                                  std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) {
  data_.blob_io().Post(
      [this, blobs = std::move(blobs), reply = std::move(reply)] { reply(data_.blobs().Missing(blobs)); });
}

}  // namespace atl
