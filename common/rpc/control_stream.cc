// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/control_stream.h"

#include <atomic>
#include <deque>
#include <optional>

#include "atoll/v1/worker.grpc.pb.h"
#include "common/base/check.h"
#include "common/plan/limits.h"
#include "common/rpc/handler_gate.h"
#include "common/rpc/peer.h"
#include "common/rpc/read_message.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/timer.h"
#include "common/wire/control_messages.h"

namespace atl {
namespace {

constexpr Duration kCloseWait = Milliseconds(100);
constexpr int kCloseWaits = 10;

absl::Status ClosedError() { return absl::FailedPreconditionError("the control stream is closed"); }
absl::Status FullError() {
  return absl::ResourceExhaustedError(
      absl::StrCat("the peer of a control stream left ", limits::kOutboxMessages, " messages unread"));
}

// ---- the worker's end -----------------------------------------------------------------------------------------------

// One call. Keeps itself alive from Begin to OnDone. A hold keeps the call open for operations
// started outside of its reactions. The hold is removed once no more operations will be started.
class WorkerCall final : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
                         public std::enable_shared_from_this<WorkerCall> {
 public:
  explicit WorkerCall(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(v1::WorkerService::NewStub(channel_)) {}

  void Begin(StreamHandlers<CoordinatorMessage> handlers) {
    gate_.Set(std::move(handlers));
    MutexLock lock(mutex_);
    if (begun_) return;
    begun_ = true;
    self_ = shared_from_this();
    stub_->async()->Control(context_.get(), this);
    AddHold();
    if (cancelled_) context_->TryCancel();
    StartCall();
    ReadIfDue();
    WriteIfDue();
  }

  absl::Status Send(WorkerMessage message) {
    MutexLock lock(mutex_);
    if (ended_ || closing_ || cancelled_) return ClosedError();
    if (outbox_.size() >= limits::kOutboxMessages) {
      CancelLocked(FullError());
      return FullError();
    }
    outbox_.push_back(WorkerMessageToProto(message));
    WriteIfDue();
    return absl::OkStatus();
  }
  void Close() {
    MutexLock lock(mutex_);
    closing_ = true;
    WriteIfDue();
  }
  void Cancel(absl::Status why) {
    MutexLock lock(mutex_);
    CancelLocked(std::move(why));
  }
  void SetPaused(bool paused) {
    MutexLock lock(mutex_);
    paused_ = paused;
    ReadIfDue();
  }
  HandlerGate<CoordinatorMessage>& gate() { return gate_; }
  // Waits until the call is over, at most `limit`. Returns true when the call is over or never
  // began.
  bool WaitUntilOver(Duration limit) {
    MutexLock lock(mutex_);
    if (begun_ && !over_) wake_.WaitFor(mutex_, limit);
    return !begun_ || over_;
  }
  // Requires the call to be over.
  void ReleaseChannel() {
    stub_.reset();
    channel_.reset();
  }

  void OnReadDone(bool ok) override {
    if (ok && !Deliver()) ok = false;
    MutexLock lock(mutex_);
    reading_ = false;
    if (ok)
      ReadIfDue();
    else
      EndLocked();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!outbox_.empty()) outbox_.pop_front();
    // A failed write means that the stream is over. A read in progress reports the end; without one it ends here.
    if (!ok && !reading_) EndLocked();
    if (ok) WriteIfDue();
  }
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<WorkerCall> self;
    std::optional<absl::Status> local;
    {
      MutexLock lock(mutex_);
      ended_ = true;
      self.swap(self_);
      local = local_status_;
      context_.reset();
    }
    gate_.Closed(local ? *local : FromGrpc(status));
    MutexLock lock(mutex_);
    over_ = true;
    wake_.NotifyAll();
  }

 private:
  // Returns false for an invalid message: the stream is then cut.
  bool Deliver() {
    absl::StatusOr<CoordinatorMessage> message = CoordinatorMessageFromProto(in_);
    if (message.ok()) {
      gate_.Message(*std::move(message));
      return true;
    }
    Cancel(Annotate(message.status(), "the coordinator sent an invalid message"));
    return false;
  }
  void ReadIfDue() ATOLL_REQUIRES(mutex_) {
    if (!begun_ || reading_ || paused_ || ended_) return;
    reading_ = true;
    StartRead(&in_);
  }
  void WriteIfDue() ATOLL_REQUIRES(mutex_) {
    if (!begun_ || writing_ || ended_) return;
    if (!outbox_.empty()) {
      writing_ = true;
      StartWrite(&outbox_.front());
    } else if (closing_ && !half_closed_) {
      half_closed_ = true;
      StartWritesDone();
      // Reads on to the end even if paused, because nothing else would notice the end.
      paused_ = false;
      ReadIfDue();
    }
  }
  void CancelLocked(absl::Status why) ATOLL_REQUIRES(mutex_) {
    if (!local_status_) local_status_ = std::move(why);
    cancelled_ = true;
    if (!begun_) return;
    if (context_ != nullptr) context_->TryCancel();
    if (!reading_) EndLocked();
  }
  void EndLocked() ATOLL_REQUIRES(mutex_) {
    if (ended_) return;
    ended_ = true;
    RemoveHold();
  }

  // The owner of the end releases the channel once the call is over: gRPC 1.51 aborts when the last
  // channel of a process ends on a gRPC thread.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  HandlerGate<CoordinatorMessage> gate_;
  v1::CoordinatorMessage in_;
  Mutex mutex_;
  std::deque<v1::WorkerMessage> outbox_ ATOLL_GUARDED_BY(mutex_);  // the front is being written while writing_
  bool begun_ ATOLL_GUARDED_BY(mutex_) = false;
  bool reading_ ATOLL_GUARDED_BY(mutex_) = false;
  bool writing_ ATOLL_GUARDED_BY(mutex_) = false;
  bool paused_ ATOLL_GUARDED_BY(mutex_) = false;
  bool closing_ ATOLL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ATOLL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ATOLL_GUARDED_BY(mutex_) = false;
  bool ended_ ATOLL_GUARDED_BY(mutex_) = false;  // no more operations will be started
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;   // the end was reported
  CondVar wake_;
  std::optional<absl::Status> local_status_ ATOLL_GUARDED_BY(mutex_);
  std::shared_ptr<WorkerCall> self_ ATOLL_GUARDED_BY(mutex_);
};

class GrpcWorkerEnd final : public WorkerEnd {
 public:
  explicit GrpcWorkerEnd(std::shared_ptr<grpc::Channel> channel)
      : call_(std::make_shared<WorkerCall>(std::move(channel))) {}
  ~GrpcWorkerEnd() override {
    const bool in_handler = call_->gate().Detach();
    // After Close the queued messages have kCloseWaits * kCloseWait, a second, to be sent.
    for (int i = 0; closed_ && !in_handler && i < kCloseWaits && !call_->WaitUntilOver(kCloseWait); ++i) {
    }
    call_->Cancel(absl::CancelledError("the control stream was dropped"));
    if (in_handler) return;
    while (!call_->WaitUntilOver(Seconds(1))) {
    }
    call_->ReleaseChannel();
  }
  void Start(StreamHandlers<CoordinatorMessage> handlers) override { call_->Begin(std::move(handlers)); }
  absl::Status Send(WorkerMessage message) override { return call_->Send(std::move(message)); }
  void Close(absl::Status) override {
    closed_ = true;
    call_->Close();
  }
  void Cancel() override { call_->Cancel(absl::CancelledError("the control stream was cancelled")); }
  void PauseReading() override { call_->SetPaused(true); }
  void ResumeReading() override { call_->SetPaused(false); }

 private:
  std::shared_ptr<WorkerCall> call_;
  std::atomic<bool> closed_ = false;
};

// ---- the coordinator's end ------------------------------------------------------------------------------------------

grpc::ByteBuffer Serialised(const v1::CoordinatorMessage& message) {
  grpc::ByteBuffer buffer;
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<v1::CoordinatorMessage>::Serialize(message, &buffer, &own);
  ATOLL_CHECK(status.ok(), "a message of the coordinator cannot be written");
  return buffer;
}

// One call at the server. Reads messages as bytes and parses them itself: gRPC would report an unparsable
// message like the end of the stream. Keeps itself alive from Adopt to OnDone. Starts nothing after Finish.
class CoordinatorCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                              public std::enable_shared_from_this<CoordinatorCall> {
 public:
  CoordinatorCall(grpc::CallbackServerContext* context, const ControlServiceOptions& options)
      : context_(context), first_message_(options.first_message), ending_limit_(options.ending) {}

  void Adopt() {
    MutexLock lock(mutex_);
    self_ = shared_from_this();
  }
  void Begin(StreamHandlers<WorkerMessage> handlers) {
    gate_.Set(std::move(handlers));
    MutexLock lock(mutex_);
    begun_ = true;
    if (!finished_) {
      silence_.Set(first_message_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->EndSilence();
      });
    }
    ReadIfDue();
    WriteIfDue();
  }
  // Called when the end is destroyed. Unless `cancel`, the queued messages are still sent.
  void Drop(bool cancel) {
    MutexLock lock(mutex_);
    dropped_ = true;
    const absl::Status why = absl::CancelledError("the coordinator dropped the stream");
    if (cancel) FinishLocked(why, why);
    WriteIfDue();
  }
  absl::Status Send(CoordinatorMessage message) {
    MutexLock lock(mutex_);
    if (finish_ || finished_) return ClosedError();
    if (outbox_.size() >= limits::kOutboxMessages) {
      FinishLocked(FullError(), FullError());
      context_->TryCancel();
      return FullError();
    }
    outbox_.push_back(Serialised(CoordinatorMessageToProto(message)));
    WriteIfDue();
    return absl::OkStatus();
  }
  void Close(absl::Status status) {
    MutexLock lock(mutex_);
    if (finish_ || finished_) return;
    Decide(std::move(status));
    own_end_ = absl::OkStatus();
    WriteIfDue();
  }
  void Cancel(const absl::Status& why) {
    MutexLock lock(mutex_);
    FinishLocked(why, why);
  }
  void SetPaused(bool paused) {
    MutexLock lock(mutex_);
    paused_ = paused;
    ReadIfDue();
  }
  HandlerGate<WorkerMessage>& gate() { return gate_; }

  void OnReadDone(bool ok) override {
    if (ok) Deliver();
    MutexLock lock(mutex_);
    reading_ = false;
    heard_ = true;
    silence_.Cancel();
    if (ok) {
      ReadIfDue();
      return;
    }
    // Nothing more to read: the worker closed the stream in order, or it disconnected (then
    // OnCancel runs too).
    read_ended_ = true;
    if (context_->IsCancelled()) {
      FinishLocked(absl::CancelledError("the worker is gone"), absl::CancelledError("the worker is gone"));
    } else if (!finish_) {
      Decide(absl::OkStatus());
      own_end_ = absl::OkStatus();
      WriteIfDue();
    }
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!outbox_.empty()) outbox_.pop_front();
    if (!ok) FinishLocked(absl::CancelledError("the worker is gone"), absl::CancelledError("the worker is gone"));
    WriteIfDue();
  }
  void OnCancel() override { Cancel(absl::CancelledError("the worker is gone")); }
  void OnDone() override {
    std::shared_ptr<CoordinatorCall> self;
    absl::Status end;
    {
      MutexLock lock(mutex_);
      finished_ = true;
      silence_.Cancel();
      ending_.Cancel();
      self.swap(self_);
      end = own_end_.value_or(absl::CancelledError("the worker is gone"));
    }
    gate_.Closed(end);
  }

 private:
  void Deliver() {
    absl::StatusOr<WorkerMessage> message = Received();
    if (message.ok()) {
      gate_.Message(*std::move(message));
      return;
    }
    const absl::Status why = Annotate(message.status(), "the worker sent an invalid message");
    MutexLock lock(mutex_);
    FinishLocked(why, why);
  }
  absl::StatusOr<WorkerMessage> Received() {
    grpc::ByteBuffer bytes;
    bytes.Swap(&in_);
    ATOLL_ASSIGN_OR_RETURN(const v1::WorkerMessage proto, ReadMessage<v1::WorkerMessage>(std::move(bytes)));
    return WorkerMessageFromProto(proto);
  }
  void EndSilence() {
    MutexLock lock(mutex_);
    if (heard_ || paused_) return;
    const absl::Status why = absl::DeadlineExceededError(
        absl::StrCat("a control stream without a message for ", ToSeconds(first_message_), " s: say hello at once"));
    FinishLocked(why, why);
  }
  void ReadIfDue() ATOLL_REQUIRES(mutex_) {
    if (!begun_ || reading_ || paused_ || read_ended_ || finished_) return;
    reading_ = true;
    StartRead(&in_);
  }
  // Drops the queue and finishes when no write is in progress. Replaces a Close's reason; else keeps the first one.
  void FinishLocked(const absl::Status& to_peer, const absl::Status& own) ATOLL_REQUIRES(mutex_) {
    if (finished_ || abrupt_) return;
    abrupt_ = true;
    own_end_ = own;
    Decide(to_peer);
    outbox_.resize(writing_ ? 1 : 0);
    WriteIfDue();
  }
  // Ends the stream with `to_peer` once the queue is written, or aborts it after ending_limit_.
  void Decide(absl::Status to_peer) ATOLL_REQUIRES(mutex_) {
    finish_ = std::move(to_peer);
    ending_.Set(ending_limit_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->BreakOff();
    });
  }
  void BreakOff() {
    MutexLock lock(mutex_);
    if (self_) context_->TryCancel();  // the context exists until OnDone
  }
  void WriteIfDue() ATOLL_REQUIRES(mutex_) {
    if (writing_ || finished_) return;
    if (!outbox_.empty()) {
      writing_ = true;
      StartWrite(&outbox_.front());
    } else if (finish_ && (begun_ || dropped_)) {
      // Not before Begin has set the handlers, or Drop: otherwise the end could not be reported.
      finished_ = true;
      Finish(ToGrpc(*finish_));
    }
  }

  grpc::CallbackServerContext* const context_;
  const Duration first_message_, ending_limit_;
  HandlerGate<WorkerMessage> gate_;
  grpc::ByteBuffer in_;
  Mutex mutex_;
  std::deque<grpc::ByteBuffer> outbox_ ATOLL_GUARDED_BY(mutex_);  // the front is being written while writing_
  bool begun_ ATOLL_GUARDED_BY(mutex_) = false;
  bool reading_ ATOLL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ATOLL_GUARDED_BY(mutex_) = false;
  bool writing_ ATOLL_GUARDED_BY(mutex_) = false;
  bool paused_ ATOLL_GUARDED_BY(mutex_) = false;
  bool finished_ ATOLL_GUARDED_BY(mutex_) = false;  // Finish was called
  bool abrupt_ ATOLL_GUARDED_BY(mutex_) = false;
  bool dropped_ ATOLL_GUARDED_BY(mutex_) = false;
  bool heard_ ATOLL_GUARDED_BY(mutex_) = false;  // a message, or the end of messages
  Timer silence_ ATOLL_GUARDED_BY(mutex_), ending_ ATOLL_GUARDED_BY(mutex_);
  std::optional<absl::Status> finish_ ATOLL_GUARDED_BY(mutex_);   // final status sent to the worker
  std::optional<absl::Status> own_end_ ATOLL_GUARDED_BY(mutex_);  // final status reported to this end's handler
  std::shared_ptr<CoordinatorCall> self_ ATOLL_GUARDED_BY(mutex_);
};

class GrpcCoordinatorEnd final : public CoordinatorEnd {
 public:
  explicit GrpcCoordinatorEnd(std::shared_ptr<CoordinatorCall> call) : call_(std::move(call)) {}
  ~GrpcCoordinatorEnd() override {
    call_->gate().Detach();
    call_->Drop(!closed_);
  }
  void Start(StreamHandlers<WorkerMessage> handlers) override { call_->Begin(std::move(handlers)); }
  absl::Status Send(CoordinatorMessage message) override { return call_->Send(std::move(message)); }
  void Close(absl::Status status) override {
    closed_ = true;
    call_->Close(std::move(status));
  }
  void Cancel() override { call_->Cancel(absl::CancelledError("the control stream was cancelled")); }
  void PauseReading() override { call_->SetPaused(true); }
  void ResumeReading() override { call_->SetPaused(false); }

 private:
  std::shared_ptr<CoordinatorCall> call_;
  std::atomic<bool> closed_ = false;
};

class ControlService final : public v1::WorkerService::WithRawCallbackMethod_Control<v1::WorkerService::Service> {
 public:
  ControlService(ControlAcceptor acceptor, ControlServiceOptions options)
      : acceptor_(std::move(acceptor)), options_(options) {}
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Control(grpc::CallbackServerContext* context) override {
    const auto call = std::make_shared<CoordinatorCall>(context, options_);
    call->Adopt();
    acceptor_(std::make_unique<GrpcCoordinatorEnd>(call), PeerOf(*context));
    return call.get();
  }

 private:
  const ControlAcceptor acceptor_;
  const ControlServiceOptions options_;
};

}  // namespace

std::unique_ptr<WorkerEnd> OpenControlStream(std::shared_ptr<grpc::Channel> channel) {
  return std::make_unique<GrpcWorkerEnd>(std::move(channel));
}

std::unique_ptr<grpc::Service> MakeControlService(ControlAcceptor acceptor, ControlServiceOptions options) {
  return std::make_unique<ControlService>(std::move(acceptor), options);
}

}  // namespace atl
