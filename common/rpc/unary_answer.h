// SPDX-License-Identifier: Apache-2.0
// The answer to a unary call, which the caller must take within a time limit: an answer that the
// caller does not read stays in memory, and gRPC counts it against no quota. Only for rooms that
// serve calls.
#ifndef ATOLL_COMMON_RPC_UNARY_ANSWER_H_
#define ATOLL_COMMON_RPC_UNARY_ANSWER_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/timer.h"

namespace atl {

constexpr Duration kAnswerStall = Seconds(30);

class UnaryAnswer final : public grpc::ServerUnaryReactor {
 public:
  // Returns an answer for a service method to return. The object frees itself once the answer is
  // taken or the time is over.
  static UnaryAnswer* Open(grpc::CallbackServerContext* context, Duration stall_limit = kAnswerStall) {
    auto answer = std::make_shared<UnaryAnswer>(context, stall_limit);
    answer->self_ = answer;
    return answer.get();
  }
  UnaryAnswer(grpc::CallbackServerContext* context, Duration stall_limit)
      : stall_limit_(stall_limit), call_(std::make_shared<Call>(context)) {}

  // Replaces Finish. Call once, on any thread. The object may be destroyed when this returns.
  void Give(const grpc::Status& status) {
    stall_.Set(stall_limit_, [call = call_] { call->CutOff(); });
    Finish(status);
  }
  void OnDone() override {
    call_->Forget();
    const std::shared_ptr<UnaryAnswer> self = std::move(self_);  // ends with this call
  }

 private:
  // Holds the context, which exists until OnDone.
  class Call {
   public:
    explicit Call(grpc::CallbackServerContext* context) : context_(context) {}
    void CutOff() ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    void Forget() ATOLL_EXCLUDES(mutex_) {
      MutexLock lock(mutex_);
      context_ = nullptr;
    }

   private:
    Mutex mutex_;
    grpc::CallbackServerContext* context_ ATOLL_GUARDED_BY(mutex_);
  };

  const Duration stall_limit_;
  const std::shared_ptr<Call> call_;
  Timer stall_;
  std::shared_ptr<UnaryAnswer> self_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_UNARY_ANSWER_H_
