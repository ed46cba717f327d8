#include "common/rpc/bulk_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <optional>

#include "atoll/v1/transfer.grpc.pb.h"
#include "common/base/check.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk_frames.h"
#include "common/rpc/frame_size.h"
#include "common/rpc/peer.h"
#include "common/rpc/receiver_buckets.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/strand.h"
#include "common/rpc/timer.h"

namespace atl {
namespace {

constexpr size_t kMissingBlobs = 4096;  // of one question

struct Shared {
  Shared(BulkHandler& h, Executor& i, const Clock& k, const BulkServiceOptions& o)
      : handler(h),
        io(i),
        clock(k),
        options(o),
        bucket(o.download_bytes_per_second, k),
        receivers(k, limits::kWorkers) {}
  BulkHandler& handler;
  Executor& io;
  const Clock& clock;
  const BulkServiceOptions options;
  SharedBucket bucket;  // of all downloads
  ReceiverBuckets receivers;
};

// Calls `stalled` when Progress was not called for the limit. Touched on the owner's strand only.
class Watchdog {
 public:
  Watchdog(const Clock& clock, Duration limit) : clock_(clock), limit_(limit), last_(clock.Now()) {}
  void Progress() { last_ = clock_.Now(); }
  // `check` must bring itself to the owner's strand and call Check there.
  void Start(std::function<void()> check) {
    check_ = std::move(check);
    timer_.Set(limit_, check_);
  }
  // True when the peer has stalled; otherwise sets itself again.
  bool Check() {
    const Duration silent = clock_.Now() - last_;
    if (silent >= limit_) return true;
    if (check_) timer_.Set(limit_ - silent, check_);
    return false;
  }
  void Stop() {
    check_ = nullptr;
    timer_.Cancel();
  }

 private:
  const Clock& clock_;
  const Duration limit_;
  Instant last_;
  std::function<void()> check_;
  Timer timer_;
};

// ---- upload ---------------------------------------------------------------------------------------------------------

// One upload conversation. All state is touched on the strand only; keeps itself alive from Begin to OnDone.
class UploadReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<UploadReactor> {
 public:
  UploadReactor(std::shared_ptr<Shared> shared, std::string peer)
      : shared_(std::move(shared)),
        handler_(shared_->handler.NewUpload(std::move(peer))),
        watchdog_(shared_->clock, shared_->options.stall_limit) {}

  void Begin() {
    OnStrand([this] {
      self_ = shared_from_this();
      std::weak_ptr<UploadReactor> weak = self_;
      watchdog_.Start([weak] {
        if (const auto self = weak.lock()) self->OnStrand([self] { self->CheckProgress(); });
      });
      Read();
    });
  }

  void OnReadDone(bool ok) override {
    OnStrand([this, ok] {
      reading_ = false;
      watchdog_.Progress();
      if (ended_) return;
      if (!ok) return Fail(absl::CancelledError("the sender went away in the middle of an upload"));
      // Taken out first: the reaction may begin the next read into in_.
      grpc::ByteBuffer message;
      message.Swap(&in_);
      const absl::Status status = begun_ ? OnPayload(message) : OnHeader(message);
      if (!status.ok()) Fail(status);
    });
  }
  void OnWriteDone(bool ok) override {
    OnStrand([this, ok] {
      writing_ = false;
      if (!ok) {
        accepted_frame_due_ = false;
        Fail(absl::CancelledError("the sender went away in the middle of an upload"));
      }
      if (finish_) FinishNow();
    });
  }
  void OnCancel() override {
    OnStrand([this] { Fail(absl::CancelledError("the sender went away in the middle of an upload")); });
  }
  void OnDone() override {
    OnStrand([this] {
      watchdog_.Stop();
      const std::shared_ptr<UploadReactor> self = std::move(self_);
      handler_.reset();
    });
  }

 private:
  void OnStrand(std::function<void()> job) { strand_.Post(*this, std::move(job)); }
  void Read() {
    if (reading_ || ended_) return;
    reading_ = true;
    StartRead(&in_);
  }

  absl::Status OnHeader(const grpc::ByteBuffer& message) {
    ATOLL_ASSIGN_OR_RETURN(const std::string bytes, ReadHeaderFrame(message));
    ATOLL_ASSIGN_OR_RETURN(UploadHeader header, ParseUploadHeader(bytes));
    begun_ = true;
    total_bytes_ = UploadBytes(header);
    handler_begun_ = true;
    handler_->OnBegin(std::move(header), [self = shared_from_this()](absl::StatusOr<UploadStatus> reply) {
      self->OnStrand([self, reply = std::move(reply)] { self->OnVerdict(reply); });
    });
    return absl::OkStatus();
  }
  void OnVerdict(const absl::StatusOr<UploadStatus>& reply) {
    watchdog_.Progress();
    if (ended_ || granted_) return;
    if (!reply.ok()) return Fail(reply.status());
    if (reply->accepted) return Accept();
    if (reply->resume_offset_bytes > total_bytes_) {
      return Fail(absl::InternalError("an upload was to go on beyond its end"));
    }
    granted_ = true;
    expected_offset_ = reply->resume_offset_bytes;
    WriteStatus(*reply);
    Read();
  }

  absl::Status OnPayload(const grpc::ByteBuffer& message) {
    if (!granted_) return absl::InvalidArgumentError("payload came before the upload was granted");
    if (last_seen_) return absl::InvalidArgumentError("payload came after the last frame");
    ATOLL_ASSIGN_OR_RETURN(const ReceivedFrame frame, ReadFrame(message));
    ATOLL_RETURN_IF_ERROR(CheckFrame(frame.view, expected_offset_, total_bytes_));
    const uint64_t offset = expected_offset_;
    expected_offset_ += frame.view.payload_bytes;
    last_seen_ = frame.view.last;
    if (frame.view.payload_bytes > 0) {
      ++unanswered_;
      handler_->OnBytes(offset, frame.Payload(), [self = shared_from_this()](absl::Status status) {
        self->OnStrand([self, status = std::move(status)] { self->OnStored(status); });
      });
    }
    if (last_seen_)
      EndIfDue();
    else if (unanswered_ < kUploadCredits)
      Read();
    return absl::OkStatus();
  }
  void OnStored(const absl::Status& status) {
    watchdog_.Progress();
    if (ended_) return;
    --unanswered_;
    if (!status.ok()) return Fail(status);
    if (last_seen_)
      EndIfDue();
    else
      Read();
  }
  void EndIfDue() {
    if (unanswered_ > 0 || ending_) return;
    ending_ = true;
    handler_->OnEnd([self = shared_from_this()](absl::Status status) {
      self->OnStrand([self, status = std::move(status)] {
        if (self->ended_) return;
        if (status.ok())
          self->Accept();
        else
          self->Fail(status);
      });
    });
  }

  void WriteStatus(const UploadStatus& status) {
    out_ = HeaderFrame(SerializeUploadStatus(status));
    writing_ = true;
    StartWrite(&out_);
  }
  void Accept() {
    ended_ = true;
    finish_ = absl::OkStatus();
    accepted_frame_due_ = true;
    if (!writing_) FinishNow();
  }
  void Fail(const absl::Status& why) {
    if (ended_) return;
    ended_ = true;
    finish_ = why;
    if (handler_begun_) handler_->OnBroken(why);
    if (!writing_) FinishNow();
  }
  void FinishNow() {
    if (accepted_frame_due_) {
      accepted_frame_due_ = false;
      return WriteStatus({total_bytes_, true});
    }
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpc(*finish_));
  }
  void CheckProgress() {
    if (!ended_ && watchdog_.Check()) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("an upload made no progress for ", ToSeconds(shared_->options.stall_limit), " s")));
    }
  }

  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<UploadHandler> handler_;
  Strand strand_;
  Watchdog watchdog_;
  grpc::ByteBuffer in_, out_;
  uint64_t total_bytes_ = 0, expected_offset_ = 0;
  int unanswered_ = 0;
  bool begun_ = false, handler_begun_ = false, granted_ = false, last_seen_ = false, ending_ = false;
  bool reading_ = false, writing_ = false, accepted_frame_due_ = false;
  bool ended_ = false;     // accepted or failed: nothing more goes to the handler
  bool finished_ = false;  // Finish was called
  std::optional<absl::Status> finish_;
  std::shared_ptr<UploadReactor> self_;
};

// ---- download -------------------------------------------------------------------------------------------------------

class DownloadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                              public std::enable_shared_from_this<DownloadReactor> {
 public:
  DownloadReactor(std::shared_ptr<Shared> shared, grpc::CallbackServerContext* context)
      : shared_(std::move(shared)), context_(context), watchdog_(shared_->clock, shared_->options.stall_limit) {}

  void Begin(const grpc::ByteBuffer& message) {
    absl::StatusOr<DownloadRequest> request = InOwnName(ReadRequest(message), PeerOf(*context_));
    OnStrand([this, request = std::move(request)]() mutable {
      self_ = shared_from_this();
      if (!request.ok()) return End(request.status());
      offset_ = result_.resumed_at = request->offset_bytes;
      receiver_bucket_ = shared_->receivers.Of(request->worker, request->limit_bytes_per_second);
      shared_->handler.OnDownload(*std::move(request), [self = self_](absl::StatusOr<DownloadContent> content) {
        self->OnStrand([self, content = std::move(content)]() mutable { self->OnContent(std::move(content)); });
      });
    });
  }

  void OnWriteDone(bool ok) override {
    OnStrand([this, ok] {
      writing_ = false;
      out_.Clear();
      watchdog_.Progress();
      if (ok) result_.payload_bytes += in_flight_bytes_;
      if (in_flight_bytes_ > 0) frame_size_.Sent(shared_->clock.Now());
      in_flight_bytes_ = 0;
      if (ended_) return FinishNow();
      if (!ok) return End(absl::CancelledError("the receiver of a download went away"));
      if (last_written_) return End(absl::OkStatus());
      WriteIfDue();
    });
  }
  void OnCancel() override {
    OnStrand([this] { End(absl::CancelledError("the receiver of a download went away")); });
  }
  void OnDone() override {
    OnStrand([this] {
      watchdog_.Stop();
      pace_.Cancel();
      const std::shared_ptr<DownloadReactor> self = std::move(self_);
      if (content_ && content_->finished) content_->finished(result_);
      content_.reset();
    });
  }

 private:
  struct Prepared {
    grpc::ByteBuffer frame;
    size_t payload_bytes = 0;
    bool last = false;
  };

  void OnStrand(std::function<void()> job) { strand_.Post(*this, std::move(job)); }
  static absl::StatusOr<DownloadRequest> ReadRequest(const grpc::ByteBuffer& message) {
    v1::DownloadRequest proto;
    grpc::ByteBuffer copy = message;  // deserialising empties it
    if (!grpc::SerializationTraits<v1::DownloadRequest>::Deserialize(&copy, &proto).ok()) {
      return absl::InvalidArgumentError("a download request is not a valid message");
    }
    return DownloadRequestFromProto(proto);
  }

  void OnContent(absl::StatusOr<DownloadContent> content) {
    if (!content.ok()) return End(content.status());
    content_ = *std::move(content);
    if (ended_) return;
    const uint64_t total = content_->header.total_bytes;
    ATOLL_CHECK(content_->source != nullptr && content_->source->size_bytes() == total,
                "a download's size is its source's");
    if (offset_ > total) {
      return End(absl::OutOfRangeError(
          absl::StrCat("a download was to go on at ", offset_, ", but the whole has ", total, " bytes: begin at 0")));
    }
    std::weak_ptr<DownloadReactor> weak = self_;
    watchdog_.Progress();
    watchdog_.Start([weak] {
      if (const auto self = weak.lock()) self->OnStrand([self] { self->CheckProgress(); });
    });
    out_ = HeaderFrame(SerializeDownloadHeader(content_->header));
    writing_ = true;
    StartWrite(&out_);
    PrepareNext();
  }

  // Reads one frame ahead while the one before is being sent: on the I/O executor where that may wait.
  void PrepareNext() {
    if (preparing_ || prepared_ || last_prepared_ || ended_) return;
    preparing_ = true;
    const uint64_t offset = offset_, total = content_->header.total_bytes;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(FrameBytes(), total - offset));
    if (content_->source->in_memory()) return OnPrepared(Prepare(*content_->source, offset, bytes));
    shared_->io.Post([self = shared_from_this(), source = content_->source, offset, bytes] {
      self->OnStrand(
          [self, prepared = Prepare(*source, offset, bytes)]() mutable { self->OnPrepared(std::move(prepared)); });
    });
  }
  static absl::StatusOr<Prepared> Prepare(BulkSource& source, uint64_t offset, size_t bytes) {
    ATOLL_ASSIGN_OR_RETURN(grpc::ByteBuffer frame, NextFrame(source, offset, bytes));
    return Prepared{std::move(frame), bytes, offset + bytes == source.size_bytes()};
  }
  void OnPrepared(absl::StatusOr<Prepared> prepared) {
    preparing_ = false;
    if (ended_) return;
    if (!prepared.ok()) return End(prepared.status());
    prepared_ = *std::move(prepared);
    offset_ += prepared_->payload_bytes;
    last_prepared_ = prepared_->last;
    WriteIfDue();
  }
  void WriteIfDue() {
    if (writing_ || ended_ || !prepared_) return;
    if (const Duration wait = TakeFromBuckets(prepared_->payload_bytes); wait.ns > 0) {
      // Waiting for the rate cap is our doing, not the peer's stall.
      watchdog_.Progress();
      pace_.Set(wait, [this, self = shared_from_this()] { OnStrand([this] { WriteIfDue(); }); });
      return;
    }
    out_.Swap(&prepared_->frame);
    in_flight_bytes_ = prepared_->payload_bytes;
    frame_size_.Begin(shared_->clock.Now());
    last_written_ = prepared_->last;
    prepared_.reset();
    writing_ = true;
    StartWrite(&out_);
    PrepareNext();
  }
  uint64_t FrameBytes() const {
    const uint64_t most = std::min(shared_->bucket.frame_bytes(), frame_size_.BytesAt(offset_));
    return receiver_bucket_ ? std::min(most, receiver_bucket_->frame_bytes()) : most;
  }
  // The receiver's cap first; what was taken of it stays taken while the cap of all is waited for.
  Duration TakeFromBuckets(uint64_t bytes) {
    if (receiver_bucket_ && !receiver_paid_) {
      if (const Duration wait = receiver_bucket_->Take(bytes); wait.ns > 0) return wait;
      receiver_paid_ = true;
    }
    const Duration wait = shared_->bucket.Take(bytes);
    if (wait.ns == 0) receiver_paid_ = false;
    return wait;
  }
  void CheckProgress() {
    if (!ended_ && watchdog_.Check()) {
      End(absl::DeadlineExceededError(
          absl::StrCat("a download made no progress for ", ToSeconds(shared_->options.stall_limit), " s")));
      // The write in progress would keep the call open for as long as the peer does not read.
      context_->TryCancel();
    }
  }
  void End(const absl::Status& status) {
    if (ended_) return;
    ended_ = true;
    result_.status = status;
    if (!writing_) FinishNow();
  }
  void FinishNow() {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpc(result_.status));
  }

  const std::shared_ptr<Shared> shared_;
  grpc::CallbackServerContext* const context_;
  Strand strand_;
  Watchdog watchdog_;
  Timer pace_;
  std::shared_ptr<SharedBucket> receiver_bucket_;  // null: the receiver wants no cap
  grpc::ByteBuffer out_;
  std::optional<DownloadContent> content_;
  std::optional<Prepared> prepared_;
  FrameSize frame_size_;
  uint64_t offset_ = 0;  // of the next frame to prepare
  size_t in_flight_bytes_ = 0;
  BulkResult result_;
  bool preparing_ = false, last_prepared_ = false, writing_ = false, last_written_ = false;
  bool receiver_paid_ = false;  // for the prepared frame
  bool ended_ = false, finished_ = false;
  std::shared_ptr<DownloadReactor> self_;
};

// ---- the service ----------------------------------------------------------------------------------------------------

using RawService =
    v1::TransferService::WithRawCallbackMethod_Upload<v1::TransferService::WithRawCallbackMethod_Download<
        v1::TransferService::WithCallbackMethod_MissingBlobs<v1::TransferService::Service>>>;

absl::StatusOr<std::vector<Sha256>> ReadQuestion(const v1::MissingBlobsRequest& request) {
  if (static_cast<size_t>(request.sha256_size()) > kMissingBlobs) {
    return absl::InvalidArgumentError(absl::StrCat("asks for ", request.sha256_size(), " files, at most ",
                                                   kMissingBlobs, " are allowed: ask in several calls"));
  }
  std::vector<Sha256> wanted;
  for (const std::string& hex : request.sha256()) {
    if (!Sha256::FromHex(hex, wanted.emplace_back())) {
      return absl::InvalidArgumentError("sha256: is not a SHA-256 of 64 hexadecimal digits");
    }
  }
  return wanted;
}

class BulkService final : public RawService {
 public:
  BulkService(BulkHandler& handler, Executor& io, const Clock& clock, const BulkServiceOptions& options)
      : shared_(std::make_shared<Shared>(handler, io, clock, options)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Upload(grpc::CallbackServerContext* context) override {
    const auto reactor = std::make_shared<UploadReactor>(shared_, PeerOf(*context));
    reactor->Begin();
    return reactor.get();
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Download(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    const auto reactor = std::make_shared<DownloadReactor>(shared_, context);
    reactor->Begin(*request);
    return reactor.get();
  }
  grpc::ServerUnaryReactor* MissingBlobs(grpc::CallbackServerContext* context, const v1::MissingBlobsRequest* request,
                                         v1::MissingBlobsResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    absl::StatusOr<std::vector<Sha256>> wanted = ReadQuestion(*request);
    if (!wanted.ok()) {
      reactor->Finish(ToGrpc(wanted.status()));
      return reactor;
    }
    shared_->handler.OnMissingBlobs(*std::move(wanted),
                                    [reactor, response](absl::StatusOr<std::vector<Sha256>> missing) {
                                      if (missing.ok()) {
                                        for (const Sha256& blob : *missing) response->add_sha256(blob.Hex());
                                      }
                                      reactor->Finish(ToGrpc(missing.status()));
                                    });
    return reactor;
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBulkService(BulkHandler& handler, Executor& io, const Clock& clock,
                                               const BulkServiceOptions& options) {
  return std::make_unique<BulkService>(handler, io, clock, options);
}

}  // namespace atl
