// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/bulk_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "atoll/v1/transfer.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/rpc/bulk_frames.h"
#include "common/rpc/channel.h"
#include "common/rpc/frame_size.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/strand.h"
#include "common/rpc/timer.h"
#include "common/rpc/token_bucket.h"

namespace atl {
namespace {

constexpr char kUploadMethod[] = "/atoll.v1.TransferService/Upload";
constexpr char kDownloadMethod[] = "/atoll.v1.TransferService/Download";

// State shared by all transfers of one client. Only the client releases the channel, and only when
// no call uses it: gRPC 1.51 aborts when the last channel of a process ends on a gRPC thread.
class Shared {
 public:
  Shared(std::shared_ptr<grpc::Channel> c, const Clock& k, const BulkClientOptions& o)
      : clock(k),
        options(o),
        channel(std::move(c)),
        stub(std::make_unique<grpc::GenericStub>(channel)),
        questions(v1::TransferService::NewStub(channel)),
        download_cap(o.caps.download_bytes_per_second),
        bucket(o.caps.upload_bytes_per_second, k) {}

  // Registers a call. `cancel` may be called at any time, also after the end of the call.
  void Begun(const void* call, std::function<void()> cancel) ATOLL_EXCLUDES(mutex_);
  // The last step of a call: reports its result with `tell`, then unregisters the call. The client
  // may be destroyed during the report or afterwards.
  void Ended(const void* call, const std::function<void()>& tell) ATOLL_EXCLUDES(mutex_);
  // Cancels all running calls and waits until they have ended. On a thread that is reporting a
  // result it does not wait.
  void EndAll() ATOLL_EXCLUDES(mutex_);

  const Clock& clock;
  const BulkClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<grpc::GenericStub> stub;
  std::unique_ptr<v1::TransferService::Stub> questions;
  std::atomic<uint64_t> download_cap;  // bytes a second; 0: none
  SharedBucket bucket;

 private:
  Mutex mutex_;
  CondVar ended_;
  std::map<const void*, std::function<void()>> running_ ATOLL_GUARDED_BY(mutex_);
  std::set<std::thread::id> telling_ ATOLL_GUARDED_BY(mutex_);
};

void Shared::Begun(const void* call, std::function<void()> cancel) {
  MutexLock lock(mutex_);
  running_[call] = std::move(cancel);
}

void Shared::Ended(const void* call, const std::function<void()>& tell) {
  {
    MutexLock lock(mutex_);
    telling_.insert(std::this_thread::get_id());
  }
  tell();
  MutexLock lock(mutex_);
  telling_.erase(std::this_thread::get_id());
  running_.erase(call);
  ended_.NotifyAll();
}

void Shared::EndAll() {
  std::vector<std::function<void()>> cancels;
  {
    MutexLock lock(mutex_);
    for (const auto& [call, cancel] : running_) cancels.push_back(cancel);
  }
  for (const auto& cancel : cancels) cancel();
  MutexLock lock(mutex_);
  while (!running_.empty() && !telling_.contains(std::this_thread::get_id())) ended_.Wait(mutex_);
}

// One conversation. The strand guards all state except context_ and cancelled_, which Cancel uses
// on any thread. The object keeps itself alive from Begin to OnDone.
class Transfer : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                 public std::enable_shared_from_this<Transfer> {
 public:
  Transfer(std::shared_ptr<Shared> shared, BulkDone done) : shared_(std::move(shared)), done_(std::move(done)) {}

  // Not on the strand. Starts the call last, so that the caller runs none of the call's callbacks.
  void Begin(const char* method) {
    self_ = shared_from_this();
    shared_->Begun(this, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Cancel();
    });
    shared_->stub->PrepareBidiStreamingCall(context_.get(), method, {}, this);
    AddHold();
    Progress();
    Watch(shared_->options.stall_limit);
    OnBegun();
    Read();
    strand_.Open();
    StartCall();
  }
  // Called on any thread. OnDone follows, because the read that is in progress until the end fails.
  void Cancel() {
    cancelled_ = true;
    MutexLock lock(context_mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  void OnReadDone(bool ok) override {
    OnStrand([this, ok] {
      reading_ = false;
      Progress();
      if (!ok) {
        Release();
        return;
      }
      if (const absl::Status status = OnMessage(in_); !status.ok()) Fail(status);
      in_.Clear();
      if (!released_) Read();
    });
  }
  void OnWriteDone(bool ok) override {
    OnStrand([this, ok] {
      writing_ = false;
      out_.Clear();
      Progress();
      if (ok) OnWritten();
    });
  }
  void OnDone(const grpc::Status& status) override {
    OnStrand([this, status] {
      released_ = true;
      watchdog_.Cancel();
      pace_.Cancel();
      const std::shared_ptr<Transfer> self = std::move(self_);
      if (failure_) {
        result_.status = *failure_;
      } else if (!status.ok() && cancelled_) {
        result_.status = absl::CancelledError("the bulk transfer was cancelled");
      } else if (!status.ok()) {
        result_.status = FromGrpc(status);
      } else if (!Complete()) {
        result_.status = absl::UnavailableError("the coordinator ended a bulk transfer before it was complete");
      }
      {
        MutexLock lock(context_mutex_);
        context_.reset();
      }
      shared_->Ended(this, [this] {
        const BulkDone done = std::move(done_);
        done(std::move(result_));
      });
    });
  }

 protected:
  // Writes the first message.
  virtual void OnBegun() = 0;
  virtual absl::Status OnMessage(grpc::ByteBuffer& message) = 0;  // takes the message
  virtual void OnWritten() = 0;
  virtual bool Complete() const = 0;
  // Describes what the transfer waits for, for the error message of a stall.
  virtual const char* Awaited() const = 0;

  void OnStrand(Strand::Job job) { strand_.Post(*this, std::move(job)); }
  void Read() {
    reading_ = true;
    StartRead(&in_);
  }
  void Write(grpc::ByteBuffer message) {
    out_.Swap(&message);
    writing_ = true;
    StartWrite(&out_);
  }
  // Ends the transfer with `why`, unless it already failed for another reason. OnDone follows.
  void Fail(const absl::Status& why) {
    if (!failure_) failure_ = why;
    if (context_ != nullptr) context_->TryCancel();
    if (!reading_) Release();
  }
  // Removes the hold of Begin. Call when no operation will be started outside of reactions any more.
  void Release() {
    if (released_) return;
    released_ = true;
    RemoveHold();
  }
  bool released() const { return released_; }
  bool writing() const { return writing_; }
  Shared& shared() { return *shared_; }

  BulkResult result_;
  Timer pace_;

 private:
  void Progress() { last_progress_ = shared_->clock.Now(); }
  void Watch(Duration wait) {
    watchdog_.Set(wait, [self = shared_from_this()] { self->OnStrand([self] { self->CheckProgress(); }); });
  }
  void CheckProgress() {
    if (released_) return;
    const Duration limit = shared_->options.stall_limit;
    const Duration silent = shared_->clock.Now() - last_progress_;
    if (silent < limit) return Watch(limit - silent);
    Fail(absl::DeadlineExceededError(
        absl::StrCat("a bulk transfer made no progress for ", ToSeconds(limit), " s: ", Awaited())));
  }

  const std::shared_ptr<Shared> shared_;
  BulkDone done_;
  // The strand resets the context when the call is done. The mutex serves Cancel, which runs
  // outside of the strand.
  Mutex context_mutex_;
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  Strand strand_;
  grpc::ByteBuffer in_, out_;
  Timer watchdog_;
  Instant last_progress_;
  bool reading_ = false, writing_ = false, released_ = false;
  std::atomic<bool> cancelled_ = false;
  std::optional<absl::Status> failure_;
  std::shared_ptr<Transfer> self_;
};

class UploadTransfer final : public Transfer {
 public:
  UploadTransfer(std::shared_ptr<Shared> shared, UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done)
      : Transfer(std::move(shared), std::move(done)), header_(std::move(header)), source_(std::move(source)) {}

 private:
  void OnBegun() override { Write(HeaderFrame(SerializeUploadHeader(header_))); }
  absl::Status OnMessage(grpc::ByteBuffer& message) override {
    ATOLL_ASSIGN_OR_RETURN(const std::string header, ReadHeaderFrame(message));
    ATOLL_ASSIGN_OR_RETURN(const UploadStatus status, ParseUploadStatus(header));
    if (status.accepted) {
      accepted_ = true;
      if (!half_closed_) HalfClose();
      return absl::OkStatus();
    }
    if (granted_) return absl::InvalidArgumentError("the coordinator granted an upload twice");
    if (status.resume_offset_bytes > source_->size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("the coordinator wants an upload of ", source_->size_bytes(),
                                                     " bytes to go on at ", status.resume_offset_bytes));
    }
    granted_ = true;
    offset_ = result_.resumed_at = status.resume_offset_bytes;
    SendNext();
    return absl::OkStatus();
  }
  void OnWritten() override {
    if (offset_ > result_.resumed_at) frame_size_.Sent(shared().clock.Now());
    if (last_sent_) source_->OnAllSent();
    SendNext();
  }
  bool Complete() const override { return accepted_; }
  const char* Awaited() const override {
    if (!granted_) return "the coordinator did not begin with it";
    return last_sent_ && !writing() ? "the coordinator did not accept it" : "the link took no more bytes";
  }

  void HalfClose() {
    half_closed_ = true;
    StartWritesDone();
  }
  void SendNext() {
    if (!granted_ || writing() || released() || half_closed_) return;
    if (last_sent_) return HalfClose();
    if (!due_) {
      const uint64_t most = std::min(shared().bucket.frame_bytes(), frame_size_.BytesAt(offset_));
      due_bytes_ = static_cast<size_t>(std::min<uint64_t>(most, source_->size_bytes() - offset_));
      due_ = shared().bucket.Reserve(due_bytes_);
    }
    if (const Duration wait = *due_ - shared().clock.Now(); wait.ns > 0) {
      pace_.Set(wait, [this, self = shared_from_this()] { OnStrand([this] { SendNext(); }); });
      return;
    }
    due_.reset();
    const size_t bytes = due_bytes_;
    absl::StatusOr<grpc::ByteBuffer> frame = frames_.Next(*source_, offset_, bytes);
    if (!frame.ok()) return Fail(frame.status());
    last_sent_ = offset_ + bytes == source_->size_bytes();
    frame_size_.Begin(shared().clock.Now());
    Write(*std::move(frame));
    offset_ += bytes;
    result_.payload_bytes += bytes;
  }

  const UploadHeader header_;
  const std::shared_ptr<BulkSource> source_;
  FrameSender frames_;
  FrameSize frame_size_;
  uint64_t offset_ = 0;
  std::optional<Instant> due_;  // when the next frame may be sent
  size_t due_bytes_ = 0;        // size of the next frame
  bool granted_ = false, last_sent_ = false, accepted_ = false, half_closed_ = false;
};

class DownloadTransfer final : public Transfer {
 public:
  DownloadTransfer(std::shared_ptr<Shared> shared, DownloadRequest request, std::shared_ptr<BulkSink> sink,
                   BulkDone done)
      : Transfer(std::move(shared), std::move(done)), request_(std::move(request)), sink_(std::move(sink)) {
    offset_ = result_.resumed_at = request_.offset_bytes;
  }

 private:
  void OnBegun() override { Write(BufferOf(DownloadRequestToProto(request_).SerializeAsString())); }
  void OnWritten() override { StartWritesDone(); }
  bool Complete() const override { return complete_; }
  const char* Awaited() const override { return "nothing came from the coordinator"; }
  absl::Status OnMessage(grpc::ByteBuffer& message) override {
    if (!header_) return OnHeader(message);
    if (complete_) return absl::InvalidArgumentError("the coordinator sent bytes after the last");
    ATOLL_ASSIGN_OR_RETURN(const auto frame, frames_.Read(message));
    ATOLL_RETURN_IF_ERROR(CheckFrame(frame->view, offset_, header_->total_bytes));
    for (const Bytes& piece : frame->view.payload) {
      ATOLL_RETURN_IF_ERROR(sink_->OnBytes(offset_, piece));
      offset_ += piece.size();
    }
    result_.payload_bytes += frame->view.payload_bytes;
    complete_ = frame->view.last;
    return absl::OkStatus();
  }
  absl::Status OnHeader(grpc::ByteBuffer& message) {
    ATOLL_ASSIGN_OR_RETURN(const std::string bytes, ReadHeaderFrame(message));
    ATOLL_ASSIGN_OR_RETURN(header_, ParseDownloadHeader(bytes));
    if (offset_ > header_->total_bytes) {
      return absl::OutOfRangeError(
          absl::StrCat("a download was to go on at ", offset_, ", but the whole has ", header_->total_bytes, " bytes"));
    }
    return sink_->OnHeader(*header_);
  }

  const DownloadRequest request_;
  const std::shared_ptr<BulkSink> sink_;
  FrameReceiver frames_;
  std::optional<DownloadHeader> header_;
  uint64_t offset_ = 0;
  bool complete_ = false;
};

class CallHandle final : public BulkCall {
 public:
  explicit CallHandle(const std::shared_ptr<Transfer>& transfer) : transfer_(transfer) {}
  ~CallHandle() override { Cancel(); }
  void Cancel() override {
    if (const auto transfer = transfer_.lock()) transfer->Cancel();
  }

 private:
  const std::weak_ptr<Transfer> transfer_;
};

// A unary call that owns its request, response and context until the answer.
struct MissingCall {
  std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
  v1::MissingBlobsRequest request;
  v1::MissingBlobsResponse response;
};

absl::StatusOr<std::vector<Sha256>> ReadMissing(const v1::MissingBlobsResponse& response) {
  std::vector<Sha256> out;
  for (const std::string& hex : response.sha256()) {
    if (!Sha256::FromHex(hex, out.emplace_back())) {
      return absl::InvalidArgumentError("the coordinator answered with what is not a SHA-256");
    }
  }
  return out;
}

// The lower of two caps, where 0 is no cap.
uint64_t Lower(uint64_t a, uint64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

class GrpcBulkClient final : public BulkClient {
 public:
  GrpcBulkClient(std::shared_ptr<grpc::Channel> channel, const Clock& clock, const BulkClientOptions& options)
      : shared_(std::make_shared<Shared>(std::move(channel), clock, options)) {}
  ~GrpcBulkClient() override {
    shared_->EndAll();
    shared_->stub.reset();
    shared_->questions.reset();
    shared_->channel.reset();
  }

  std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) override {
    const auto transfer =
        std::make_shared<UploadTransfer>(shared_, std::move(header), std::move(source), std::move(done));
    transfer->Begin(kUploadMethod);
    return std::make_unique<CallHandle>(transfer);
  }
  std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink> sink, BulkDone done) override {
    if (request.limit_bytes_per_second == 0) request.limit_bytes_per_second = shared_->download_cap;
    const auto transfer =
        std::make_shared<DownloadTransfer>(shared_, std::move(request), std::move(sink), std::move(done));
    transfer->Begin(kDownloadMethod);
    return std::make_unique<CallHandle>(transfer);
  }
  void MissingBlobs(std::vector<Sha256> blobs, std::function<void(absl::StatusOr<std::vector<Sha256>>)> done) override {
    const auto call = std::make_shared<MissingCall>();
    for (const Sha256& blob : blobs) call->request.add_sha256(blob.Hex());
    SetDeadline(*call->context);
    shared_->Begun(call.get(), [weak = std::weak_ptr(call->context)] {
      if (const auto context = weak.lock()) context->TryCancel();
    });
    shared_->questions->async()->MissingBlobs(
        call->context.get(), &call->request, &call->response,
        [call, shared = shared_, done = std::move(done)](const grpc::Status& status) {
          call->context.reset();
          shared->Ended(call.get(), [&] {
            if (status.ok())
              done(ReadMissing(call->response));
            else
              done(FromGrpc(status));
          });
        });
  }
  void SetJobCaps(const BulkCaps& caps) override {
    const BulkCaps& own = shared_->options.caps;
    shared_->download_cap = Lower(own.download_bytes_per_second, caps.download_bytes_per_second);
    shared_->bucket.SetRate(Lower(own.upload_bytes_per_second, caps.upload_bytes_per_second));
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

// Waits for one value that another thread sets.
template <typename T>
class Waiter {
 public:
  void Set(T value) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    set_.NotifyAll();
  }
  T Wait() {
    MutexLock lock(mutex_);
    while (!value_) set_.Wait(mutex_);
    return *std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar set_;
  std::optional<T> value_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<BulkClient> MakeGrpcBulkClient(std::shared_ptr<grpc::Channel> channel, const Clock& clock,
                                               const BulkClientOptions& options) {
  return std::make_unique<GrpcBulkClient>(std::move(channel), clock, options);
}

BulkResult UploadAndWait(BulkClient& client, UploadHeader header, std::shared_ptr<BulkSource> source) {
  const auto waiter = std::make_shared<Waiter<BulkResult>>();
  const auto call =
      client.Upload(std::move(header), std::move(source), [waiter](BulkResult r) { waiter->Set(std::move(r)); });
  return waiter->Wait();
}

BulkResult DownloadAndWait(BulkClient& client, DownloadRequest request, std::shared_ptr<BulkSink> sink,
                           const std::stop_token& stop) {
  const auto waiter = std::make_shared<Waiter<BulkResult>>();
  const auto call =
      client.Download(std::move(request), std::move(sink), [waiter](BulkResult r) { waiter->Set(std::move(r)); });
  const std::stop_callback cancel(stop, [&call] { call->Cancel(); });
  return waiter->Wait();
}

}  // namespace atl
