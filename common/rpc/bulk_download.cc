// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/bulk_download.h"

#include <algorithm>
#include <optional>

#include "atoll/v1/transfer.grpc.pb.h"
#include "common/base/check.h"
#include "common/rpc/bulk_frames.h"
#include "common/rpc/frame_size.h"
#include "common/rpc/peer.h"
#include "common/rpc/read_message.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/strand.h"

namespace atl {
namespace {

class DownloadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                              public std::enable_shared_from_this<DownloadReactor> {
 public:
  DownloadReactor(std::shared_ptr<BulkShared> shared, grpc::CallbackServerContext* context)
      : shared_(std::move(shared)),
        context_(context),
        connection_(context->peer()),
        watchdog_(shared_->clock, shared_->options.stall_limit) {}

  void Begin(const grpc::ByteBuffer& message) {
    absl::StatusOr<DownloadRequest> request = InOwnName(ReadRequest(message), PeerOf(*context_));
    OnStrand([this, request = std::move(request)]() mutable {
      self_ = shared_from_this();
      if (!request.ok()) return End(request.status());
      entered_ = shared_->turns.Enter(connection_);
      if (!entered_) {
        return End(
            absl::ResourceExhaustedError(absl::StrCat("this connection has ", kDownloadsPerConnection,
                                                      " downloads already: begin another when one of them has ended")));
      }
      offset_ = result_.resumed_at = request->offset_bytes;
      receiver_bucket_ = shared_->receivers.Of(request->worker, request->limit_bytes_per_second);
      shared_->opens.Take(connection_, [self = self_, request = *std::move(request)](DownloadTurns::Done done) {
        self->OnStrand([self, request, done = std::move(done)] { self->Open(request, done); });
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
      if (entered_) shared_->turns.Leave(connection_);
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

  void OnStrand(Strand::Job job) { strand_.Post(*this, std::move(job)); }
  static absl::StatusOr<DownloadRequest> ReadRequest(const grpc::ByteBuffer& message) {
    ATOLL_ASSIGN_OR_RETURN(const v1::DownloadRequest proto, ReadMessage<v1::DownloadRequest>(message));
    return DownloadRequestFromProto(proto);
  }

  void Open(const DownloadRequest& request, const DownloadTurns::Done& done) {
    if (ended_) return done();
    shared_->handler.OnDownload(request, [self = self_, done](absl::StatusOr<DownloadContent> content) {
      self->OnStrand([self, content = std::move(content)]() mutable { self->OnContent(std::move(content)); });
      done();
    });
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

  // Reads one frame ahead while the previous one is being sent. A source that may block is read at
  // the turn of its connection (DownloadTurns), on the executor for reads.
  void PrepareNext() {
    if (preparing_ || prepared_ || last_prepared_ || ended_) return;
    preparing_ = true;
    const uint64_t offset = offset_, total = content_->header.total_bytes;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(FrameBytes(), total - offset));
    if (content_->source->in_memory()) return OnPrepared(Prepare(*content_->source, offset, bytes));
    shared_->turns.Take(connection_, [self = shared_from_this(), offset, bytes](DownloadTurns::Done done) {
      self->OnStrand([self, offset, bytes, done = std::move(done)] { self->Read(offset, bytes, done); });
    });
  }
  void Read(uint64_t offset, size_t bytes, const DownloadTurns::Done& done) {
    if (ended_) return done();
    shared_->reads.Post([self = shared_from_this(), source = content_->source, offset, bytes, done] {
      self->OnStrand([self, prepared = self->Prepare(*source, offset, bytes)]() mutable {
        self->OnPrepared(std::move(prepared));
      });
      done();
    });
  }
  // May run outside of the strand. preparing_ ensures one call at a time.
  absl::StatusOr<Prepared> Prepare(BulkSource& source, uint64_t offset, size_t bytes) {
    ATOLL_ASSIGN_OR_RETURN(const grpc::ByteBuffer frame, frames_.Next(source, offset, bytes));
    return Prepared{frame, bytes, offset + bytes == source.size_bytes()};
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
    if (!due_) due_ = ReserveTurn(prepared_->payload_bytes);
    if (const Duration wait = *due_ - shared_->clock.Now(); wait.ns > 0) {
      pace_.Set(wait, [this, self = shared_from_this()] { OnStrand([this] { WriteIfDue(); }); });
      return;
    }
    due_.reset();
    watchdog_.Progress();  // this side waited for the rate cap; the peer did not stall
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
    uint64_t most = std::min(shared_->bucket.frame_bytes(), frame_size_.BytesAt(offset_));
    if (receiver_bucket_) most = std::min(most, receiver_bucket_->frame_bytes());
    if (content_->source->in_memory()) return most;
    // The downloads of a connection divide the bytes of one full frame among them: a peer that opens
    // many and stops reading ties up little memory.
    return std::min<uint64_t>(most, limits::kFramePayloadBytes / std::max<size_t>(1, shared_->turns.Of(connection_)));
  }
  // Takes the bytes from both caps, the receiver's and that over all downloads; returns when they may be sent.
  Instant ReserveTurn(uint64_t bytes) {
    const Instant of_all = shared_->bucket.Reserve(bytes);
    return receiver_bucket_ ? std::max(of_all, receiver_bucket_->Reserve(bytes)) : of_all;
  }
  void CheckProgress() {
    if (due_) watchdog_.Progress();
    if (!watchdog_.Check()) return;
    End(absl::DeadlineExceededError(absl::StrCat("a download made no progress for ",
                                                 ToSeconds(shared_->options.stall_limit),
                                                 " s: the receiver took nothing, or the source gave nothing")));
    // A write in progress keeps the call open while the peer does not read, also when the call has
    // ended for another reason. Until such a write is done the call is not finished, so its context
    // exists. Without a write in progress the call may be finished and its context gone.
    if (writing_) context_->TryCancel();
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

  const std::shared_ptr<BulkShared> shared_;
  grpc::CallbackServerContext* const context_;
  const std::string connection_;
  Strand strand_;
  Watchdog watchdog_;
  Timer pace_;
  std::shared_ptr<SharedBucket> receiver_bucket_;  // null: the receiver has no cap
  grpc::ByteBuffer out_;
  std::optional<DownloadContent> content_;
  std::optional<Prepared> prepared_;
  FrameSender frames_;
  FrameSize frame_size_;
  uint64_t offset_ = 0;  // offset of the next frame to prepare
  size_t in_flight_bytes_ = 0;
  BulkResult result_;
  bool preparing_ = false, last_prepared_ = false, writing_ = false, last_written_ = false;
  std::optional<Instant> due_;  // when the prepared frame may be sent
  bool entered_ = false;        // counted among the downloads of its connection
  bool ended_ = false, finished_ = false;
  std::shared_ptr<DownloadReactor> self_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartDownload(std::shared_ptr<BulkShared> shared,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request) {
  const auto reactor = std::make_shared<DownloadReactor>(std::move(shared), context);
  reactor->Begin(request);
  return reactor.get();
}

}  // namespace atl
