// SPDX-License-Identifier: Apache-2.0
#include "tests/support/memory_bulk.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace atl {
namespace {

// State shared by all conversations of one client. `executor` runs every step, so that no lock is
// needed.
struct Shared {
  BulkHandler& handler;
  Executor& executor;
  const MemoryBulkOptions options;
  bool Cut() const { return options.cut && options.cut(); }
};

absl::Status CutError() { return absl::UnavailableError("the connection broke in the middle of a bulk transfer"); }
absl::Status CancelledByCaller() { return absl::CancelledError("the bulk transfer was cancelled"); }

// Ends once: the first result is reported, on the executor.
class Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  Conversation(std::shared_ptr<Shared> shared, BulkDone done) : shared_(std::move(shared)), done_(std::move(done)) {}
  virtual ~Conversation() = default;
  virtual void Begin() = 0;
  // Runs on the executor.
  void End(const absl::Status& status) {
    if (ended_) return;
    ended_ = true;
    OnEnded(status);
    result_.status = status;
    const BulkDone done = std::move(done_);
    done(result_);
  }
  void Later(std::function<void()> job) {
    shared_->executor.Post([self = shared_from_this(), job = std::move(job)] { job(); });
  }

 protected:
  virtual void OnEnded(const absl::Status& status) = 0;
  const std::shared_ptr<Shared> shared_;
  BulkResult result_;
  bool ended_ = false;

 private:
  BulkDone done_;
};

class MemoryUpload final : public Conversation {
 public:
  MemoryUpload(std::shared_ptr<Shared> shared, UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done)
      : Conversation(std::move(shared), std::move(done)), header_(std::move(header)), source_(std::move(source)) {}

  void Begin() override {
    Later([this] {
      if (ended_) return;
      if (shared_->Cut()) return End(CutError());
      handler_ = shared_->handler.NewUpload("memory");
      handler_->OnBegin(header_, [this, self = shared_from_this()](absl::StatusOr<UploadStatus> reply) {
        Later([this, reply = std::move(reply)] { OnVerdict(reply); });
      });
    });
  }

 private:
  void OnEnded(const absl::Status& status) override {
    // Moved out to break the cycle: the handler may hold our reply forever.
    const std::shared_ptr<UploadHandler> handler = std::move(handler_);
    if (handler != nullptr && !accepted_) handler->OnBroken(status);
  }
  void OnVerdict(const absl::StatusOr<UploadStatus>& reply) {
    if (ended_) return;
    if (!reply.ok()) return End(reply.status());
    if (reply->accepted) return Accept();
    offset_ = result_.resumed_at = reply->resume_offset_bytes;
    SendNext();
  }
  void SendNext() {
    if (ended_ || sending_ || unanswered_ >= kUploadCredits) return;
    if (offset_ == source_->size_bytes()) return EndIfDue();
    sending_ = true;
    Later([this] {
      sending_ = false;
      if (!ended_) SendFrame();
    });
  }
  void SendFrame() {
    if (shared_->Cut()) return End(CutError());
    const auto bytes =
        static_cast<size_t>(std::min<uint64_t>(shared_->options.frame_bytes, source_->size_bytes() - offset_));
    const absl::StatusOr<BulkBytes> payload = source_->Read(offset_, bytes);
    if (!payload.ok()) return End(payload.status());
    ++unanswered_;
    const uint64_t at = std::exchange(offset_, offset_ + bytes);
    result_.payload_bytes += bytes;
    handler_->OnBytes(at, *payload, [this, self = shared_from_this()](absl::Status status) {
      Later([this, status = std::move(status)] {
        if (ended_) return;
        --unanswered_;
        if (!status.ok()) return End(status);
        SendNext();
      });
    });
    if (offset_ == source_->size_bytes()) source_->OnAllSent();
    SendNext();
  }
  void EndIfDue() {
    if (unanswered_ > 0 || ending_) return;
    ending_ = true;
    handler_->OnEnd([this, self = shared_from_this()](absl::Status status) {
      Later([this, status = std::move(status)] {
        if (ended_) return;
        if (status.ok())
          Accept();
        else
          End(status);
      });
    });
  }
  void Accept() {
    accepted_ = true;
    End(absl::OkStatus());
  }

  const UploadHeader header_;
  const std::shared_ptr<BulkSource> source_;
  std::shared_ptr<UploadHandler> handler_;
  uint64_t offset_ = 0;
  int unanswered_ = 0;
  bool sending_ = false, ending_ = false, accepted_ = false;
};

class MemoryDownload final : public Conversation {
 public:
  MemoryDownload(std::shared_ptr<Shared> shared, DownloadRequest request, std::shared_ptr<BulkSink> sink, BulkDone done)
      : Conversation(std::move(shared), std::move(done)), request_(std::move(request)), sink_(std::move(sink)) {
    offset_ = result_.resumed_at = request_.offset_bytes;
  }

  void Begin() override {
    Later([this] {
      if (ended_) return;
      if (shared_->Cut()) return End(CutError());
      shared_->handler.OnDownload(request_, [this, self = shared_from_this()](absl::StatusOr<DownloadContent> content) {
        Later([this, content = std::move(content)] { OnContent(content); });
      });
    });
  }

 private:
  void OnEnded(const absl::Status& status) override {
    if (!content_ || !content_->finished) return;
    BulkResult told = result_;
    told.status = status;
    content_->finished(told);
  }
  void OnContent(const absl::StatusOr<DownloadContent>& content) {
    if (ended_) return;
    if (!content.ok()) return End(content.status());
    content_ = *content;
    if (offset_ > content_->header.total_bytes) {
      return End(absl::OutOfRangeError(absl::StrCat("a download was to go on at ", offset_, ", but the whole has ",
                                                    content_->header.total_bytes, " bytes: begin at 0")));
    }
    if (const absl::Status status = sink_->OnHeader(content_->header); !status.ok()) return End(status);
    Next();
  }
  void Next() {
    if (offset_ == content_->header.total_bytes) return End(absl::OkStatus());
    Later([this] {
      if (!ended_) Frame();
    });
  }
  void Frame() {
    if (shared_->Cut()) return End(CutError());
    const auto bytes =
        static_cast<size_t>(std::min<uint64_t>(shared_->options.frame_bytes, content_->header.total_bytes - offset_));
    const absl::StatusOr<BulkBytes> payload = content_->source->Read(offset_, bytes);
    if (!payload.ok()) return End(payload.status());
    for (const Bytes& piece : payload->pieces) {
      if (const absl::Status status = sink_->OnBytes(offset_, piece); !status.ok()) return End(status);
      offset_ += piece.size();
      result_.payload_bytes += piece.size();
    }
    Next();
  }

  const DownloadRequest request_;
  const std::shared_ptr<BulkSink> sink_;
  std::optional<DownloadContent> content_;
  uint64_t offset_ = 0;
};

class MemoryCall final : public BulkCall {
 public:
  explicit MemoryCall(const std::shared_ptr<Conversation>& conversation) : conversation_(conversation) {}
  ~MemoryCall() override { Cancel(); }
  void Cancel() override {
    if (const auto it = conversation_.lock()) {
      it->Later([it] { it->End(CancelledByCaller()); });
    }
  }

 private:
  const std::weak_ptr<Conversation> conversation_;
};

class MemoryBulkClient final : public BulkClient {
 public:
  MemoryBulkClient(BulkHandler& handler, Executor& executor, MemoryBulkOptions options)
      : shared_(std::make_shared<Shared>(Shared{handler, executor, std::move(options)})) {}

  std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) override {
    return Run(std::make_shared<MemoryUpload>(shared_, std::move(header), std::move(source), std::move(done)));
  }
  std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink> sink, BulkDone done) override {
    return Run(std::make_shared<MemoryDownload>(shared_, std::move(request), std::move(sink), std::move(done)));
  }
  void MissingBlobs(std::vector<Sha256> blobs, std::function<void(absl::StatusOr<std::vector<Sha256>>)> done) override {
    const auto shared = shared_;
    shared->executor.Post([shared, blobs = std::move(blobs), done = std::move(done)] {
      shared->handler.OnMissingBlobs(blobs, [shared, done](absl::StatusOr<std::vector<Sha256>> missing) {
        shared->executor.Post([done, missing = std::move(missing)] { done(missing); });
      });
    });
  }

  void SetJobCaps(const BulkCaps&) override {}  // nothing in memory is paced

 private:
  static std::unique_ptr<BulkCall> Run(const std::shared_ptr<Conversation>& conversation) {
    conversation->Begin();
    return std::make_unique<MemoryCall>(conversation);
  }
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<BulkClient> MakeMemoryBulkClient(BulkHandler& handler, Executor& executor, MemoryBulkOptions options) {
  return std::make_unique<MemoryBulkClient>(handler, executor, std::move(options));
}

}  // namespace atl
