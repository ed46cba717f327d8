// SPDX-License-Identifier: Apache-2.0
// A gRPC server stream with writers ("feeders") that may outlive it.
#ifndef ATOLL_COMMON_RPC_FED_STREAM_H_
#define ATOLL_COMMON_RPC_FED_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/timer.h"

namespace atl {

// Queues responses until gRPC takes them for sending. A feeder asks Takes() first, so that the queue
// holds at most one batch of responses. A reader for which one write takes longer than `stall_limit`
// is disconnected with CANCELLED.
template <typename Response>
class FedStream : public grpc::ServerWriteReactor<Response> {
 public:
  // Returns a stream for a service method to return. The stream frees itself when the call is over.
  static FedStream* Open(grpc::CallbackServerContext* context, Duration stall_limit = limits::kStreamStall) {
    auto stream = std::make_shared<FedStream>(context, stall_limit);
    stream->self_ = stream;
    return stream.get();
  }
  FedStream(grpc::CallbackServerContext* context, Duration stall_limit)
      : context_(context), stall_limit_(stall_limit) {}

  // A feeder's reference to a stream that may end at any time. Has no effect after the end.
  // Thread-safe.
  class Feeder {
   public:
    explicit Feeder(FedStream* stream) : stream_(stream) {}
    // True when gRPC has taken all responses for sending and the stream has not ended.
    bool Takes() ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      return stream_ != nullptr && stream_->Takes();
    }
    // `held` (of an AnswerBudget) is released when the write of the next response starts, or the stream
    // ends: gRPC may still hold a short response after OnWriteDone.
    void Feed(Response response, std::shared_ptr<const void> held = nullptr) ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      if (stream_ != nullptr) stream_->Feed({std::move(response), std::move(held)});
    }
    // Ends the stream once all queued responses are written.
    void End(const absl::Status& status) ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      if (stream_ != nullptr) stream_->End(status);
    }

   private:
    friend class FedStream;
    void Forget() ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      stream_ = nullptr;
    }
    void CutOff() ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      if (stream_ != nullptr) stream_->context_->TryCancel();  // the context exists until OnDone
    }

    Mutex mutex_;
    FedStream* stream_ ATOLL_GUARDED_BY(mutex_);
  };
  const std::shared_ptr<Feeder>& feeder() const { return feeder_; }

  std::function<void()> on_done = [] {};  // called when the call is over; set before the service method returns

  void OnWriteDone(bool ok) override ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    writing_ = false;
    stall_.Cancel();
    if (!ok) waiting_.clear();
    if (!waiting_.empty()) return WriteNext();
    if (!ok) finishing_ = true;
    if (finishing_) FinishNow();
  }
  void OnCancel() override { End(absl::CancelledError("the caller went away")); }
  void OnDone() override {
    feeder_->Forget();
    on_done();
    const std::shared_ptr<FedStream> self = std::move(self_);  // ends with this call
  }

 private:
  struct Entry {
    Response response;
    std::shared_ptr<const void> held;
  };
  bool Takes() ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !finishing_ && !writing_;  // the queue is then empty
  }
  void Feed(Entry entry) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (finishing_) return;
    waiting_.push_back(std::move(entry));
    if (!writing_) WriteNext();
  }
  void End(const absl::Status& status) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (finishing_) return;
    finishing_ = true;
    status_ = status;
    if (!writing_) FinishNow();
  }
  void WriteNext() ATOLL_REQUIRES(mutex_) {
    writing_ = true;
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    LimitStall();
    this->StartWrite(&current_.response);
  }
  void FinishNow() ATOLL_REQUIRES(mutex_) {
    LimitStall();
    this->Finish(ToGrpc(status_));
  }
  void LimitStall() ATOLL_REQUIRES(mutex_) {
    stall_.Set(stall_limit_, [feeder = feeder_] { feeder->CutOff(); });
  }

  grpc::CallbackServerContext* const context_;
  const Duration stall_limit_;
  const std::shared_ptr<Feeder> feeder_ = std::make_shared<Feeder>(this);
  Mutex mutex_;
  std::deque<Entry> waiting_ ATOLL_GUARDED_BY(mutex_);
  bool writing_ ATOLL_GUARDED_BY(mutex_) = false;
  bool finishing_ ATOLL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ATOLL_GUARDED_BY(mutex_);
  Entry current_;
  Timer stall_ ATOLL_GUARDED_BY(mutex_);  // set while a write or the end is in flight
  std::shared_ptr<FedStream> self_;       // until the call is over
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_FED_STREAM_H_
