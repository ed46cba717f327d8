// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/bulk_service.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <optional>

#include "atoll/v1/transfer.grpc.pb.h"
#include "common/rpc/bulk_download.h"
#include "common/rpc/bulk_frames.h"
#include "common/rpc/bulk_shared.h"
#include "common/rpc/peer.h"
#include "common/rpc/read_message.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/strand.h"
#include "common/rpc/unary_answer.h"

namespace atl {
namespace {

constexpr size_t kMissingBlobs = 4096;  // in one request

// ---- upload ---------------------------------------------------------------------------------------------------------

// One upload conversation. The strand guards all state. The object keeps itself alive from Begin to
// OnDone.
class UploadReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<UploadReactor> {
 public:
  UploadReactor(std::shared_ptr<BulkShared> shared, grpc::CallbackServerContext* context, std::string peer)
      : shared_(std::move(shared)),
        context_(context),
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
      // Swapped out first, because the reaction may start the next read into in_.
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
  void OnStrand(Strand::Job job) { strand_.Post(*this, std::move(job)); }
  void Read() {
    if (reading_ || ended_) return;
    reading_ = true;
    StartRead(&in_);
  }

  absl::Status OnHeader(grpc::ByteBuffer& message) {
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

  absl::Status OnPayload(grpc::ByteBuffer& message) {
    if (!granted_) return absl::InvalidArgumentError("payload came before the upload was granted");
    if (last_seen_) return absl::InvalidArgumentError("payload came after the last frame");
    ATOLL_ASSIGN_OR_RETURN(const auto frame, frames_.Read(message));
    ATOLL_RETURN_IF_ERROR(CheckFrame(frame->view, expected_offset_, total_bytes_));
    const uint64_t offset = expected_offset_;
    expected_offset_ += frame->view.payload_bytes;
    last_seen_ = frame->view.last;
    if (frame->view.payload_bytes > 0) {
      ++unanswered_;
      handler_->OnBytes(offset, PayloadOf(frame), [self = shared_from_this()](absl::Status status) {
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
    if (!watchdog_.Check()) return;
    if (!ended_) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat("an upload made no progress for ", ToSeconds(shared_->options.stall_limit), " s: ", Awaited())));
    }
    // If a write is stuck, the call cannot finish: a peer that reads nothing would keep it open forever.
    if (writing_ && self_) context_->TryCancel();  // the context exists until OnDone
  }
  // Describes what the upload waits for, for the error message of a stall.
  const char* Awaited() const {
    if (!begun_) return "the sender did not say what it is";
    if (!granted_) return "the coordinator did not begin with it, its disk may be busy or hang";
    if (unanswered_ > 0) return "the coordinator did not store what had come, its disk may be busy or hang";
    if (ending_) return "the coordinator did not accept it, its disk may be busy or hang";
    return "nothing came from the sender";
  }

  const std::shared_ptr<BulkShared> shared_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<UploadHandler> handler_;
  Strand strand_;
  Watchdog watchdog_;
  FrameReceiver frames_;
  grpc::ByteBuffer in_, out_;
  uint64_t total_bytes_ = 0, expected_offset_ = 0;
  int unanswered_ = 0;
  bool begun_ = false, handler_begun_ = false, granted_ = false, last_seen_ = false, ending_ = false;
  bool reading_ = false, writing_ = false, accepted_frame_due_ = false;
  bool ended_ = false;     // accepted or failed: the handler gets no more calls
  bool finished_ = false;  // Finish was called
  std::optional<absl::Status> finish_;
  std::shared_ptr<UploadReactor> self_;
};

// ---- the service ----------------------------------------------------------------------------------------------------

using RawService =
    v1::TransferService::WithRawCallbackMethod_Upload<v1::TransferService::WithRawCallbackMethod_Download<
        v1::TransferService::WithRawCallbackMethod_MissingBlobs<v1::TransferService::Service>>>;

absl::StatusOr<std::vector<Sha256>> ReadQuestion(const grpc::ByteBuffer& bytes) {
  ATOLL_ASSIGN_OR_RETURN(const v1::MissingBlobsRequest request, ReadMessage<v1::MissingBlobsRequest>(bytes));
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
  BulkService(BulkHandler& handler, Executor& reads, const Clock& clock, const BulkServiceOptions& options)
      : shared_(std::make_shared<BulkShared>(handler, reads, clock, options)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Upload(grpc::CallbackServerContext* context) override {
    const auto reactor = std::make_shared<UploadReactor>(shared_, context, PeerOf(*context));
    reactor->Begin();
    return reactor.get();
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Download(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return StartDownload(shared_, context, *request);
  }
  grpc::ServerUnaryReactor* MissingBlobs(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override {
    UnaryAnswer* reactor = UnaryAnswer::Open(context);
    absl::StatusOr<std::vector<Sha256>> wanted = ReadQuestion(*request);
    if (!wanted.ok()) {
      reactor->Give(ToGrpc(wanted.status()));
      return reactor;
    }
    const std::optional<Identity> caller = IdentityOf(*context);
    shared_->handler.OnMissingBlobs(*std::move(wanted),
                                    [this, reactor, response, who = caller ? IdentityUri(*caller) : ""](
                                        const absl::StatusOr<std::vector<Sha256>>& missing) {
                                      if (!missing.ok()) return reactor->Give(ToGrpc(missing.status()));
                                      v1::MissingBlobsResponse message;
                                      for (const Sha256& blob : *missing) message.add_sha256(blob.Hex());
                                      reactor->Give(message, response, answers_, who);
                                    });
    return reactor;
  }

 private:
  const std::shared_ptr<BulkShared> shared_;
  AnswerBudget answers_{{.all = size_t{16} << 20, .of_one = size_t{4} << 20}};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBulkService(BulkHandler& handler, Executor& reads, const Clock& clock,
                                               const BulkServiceOptions& options) {
  return std::make_unique<BulkService>(handler, reads, clock, options);
}

}  // namespace atl
