// SPDX-License-Identifier: Apache-2.0
// The answer to a unary call, which the caller must take within a time limit: an answer that the
// caller does not read stays in memory, in serialized form, and counts against a budget. Only for
// rooms that serve calls.
#ifndef ATOLL_COMMON_RPC_UNARY_ANSWER_H_
#define ATOLL_COMMON_RPC_UNARY_ANSWER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/answer_budget.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/timer.h"

namespace atl {

inline constexpr Duration kAnswerStall = Seconds(30);  // for the caller to take it; then the call is cancelled

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

  // Both forms of Give replace Finish. Call one of them once, on any thread. The object may already
  // be destroyed when Give returns.
  // Writes the message to `out`, the response of this call as bytes, or gives the budget's refusal.
  template <typename Message>
  void Give(const Message& message, grpc::ByteBuffer* out, AnswerBudget& budget, const std::string& caller) {
    absl::StatusOr<AnswerBudget::Held> held = budget.Take(caller, message.ByteSizeLong());
    if (!held.ok()) return Give(ToGrpc(held.status()));
    held_ = *std::move(held);
    bool own_buffer = false;
    Give(grpc::SerializationTraits<Message>::Serialize(message, out, &own_buffer));
  }
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
  AnswerBudget::Held held_;
  std::shared_ptr<UnaryAnswer> self_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_UNARY_ANSWER_H_
