// SPDX-License-Identifier: Apache-2.0
// Answers that their callers do not take: they hold a budget until they are taken or cut off.
#include "common/rpc/unary_answer.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "atoll/v1/job.grpc.pb.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

constexpr size_t kOne = size_t{1} << 20;

TEST(AnswerBudget, HasABoundForOneCallerAndForAll) {
  AnswerBudget budget({.all = 4 * kOne, .of_one = 2 * kOne});
  std::map<std::string, AnswerBudget::Held> held;
  held["eve"] = *budget.Take("viewer/eve", 2 * kOne);
  const absl::Status of_one = budget.Take("viewer/eve", 1).status();
  EXPECT_EQ(of_one.message(),
            "the answers that wait for viewer/eve take 2 MiB, the limit of one caller; read them, or ask again in a "
            "second (this call was carried out, only its answer is missing)");
  EXPECT_EQ(of_one.code(), absl::StatusCode::kResourceExhausted);
  held["bob"] = *budget.Take("viewer/bob", 2 * kOne);
  const absl::Status of_all = budget.Take("", 1).status();
  EXPECT_EQ(of_all.message(),
            "the answers that wait for their callers take 4 MiB, the limit; read them, or ask again in a second (this "
            "call was carried out, only its answer is missing)");
  held.erase("eve");
  EXPECT_EQ(budget.taken(), 2 * kOne);
  held[""] = *budget.Take("", 2 * kOne);
  EXPECT_NE(budget.Take("", 1).status().message().find("wait for callers without certificate"), std::string::npos);
  held.clear();
  EXPECT_EQ(budget.taken(), size_t{0});
}

TEST(AnswerBudget, AnEmptyOneTakesTheLargestAnswerAndEveryEmptyAnswer) {
  AnswerBudget budget({});
  EXPECT_TRUE(budget.Take("", limits::kMessageBytes).ok());
  EXPECT_FALSE(budget.Take("", SIZE_MAX).ok());
  std::vector<AnswerBudget::Held> held = {*budget.Take("", budget.taken()), *budget.Take("", 0), *budget.Take("a", 0)};
  held.clear();
  EXPECT_EQ(budget.taken(), size_t{0});
}

TEST(AnswerBudget, MayEndBeforeItsAnswers) {
  auto budget = std::make_unique<AnswerBudget>(AnswerBudget::Limits{});
  const AnswerBudget::Held held = *budget->Take("a", 1);
  budget.reset();
}

// Answers ListJobs with a page token of 1 MiB, whatever the request.
class Large final : public v1::JobService::WithRawCallbackMethod_ListJobs<v1::JobService::Service> {
 public:
  explicit Large(Duration stall_limit) : stall_limit_(stall_limit) {
    answer_.set_next_page_token(std::string(kOne, 'x'));
  }
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const grpc::ByteBuffer*,
                                     grpc::ByteBuffer* response) override {
    UnaryAnswer* answer = UnaryAnswer::Open(context, stall_limit_);
    answer->Give(answer_, response, budget, "");
    given.Put(true);
    return answer;
  }
  // One answer fits, no second one.
  AnswerBudget budget{{.all = kOne + 1024, .of_one = kOne + 1024}};
  Inbox<bool> given;

 private:
  const Duration stall_limit_;
  v1::ListJobsResponse answer_;
};

class UnreadAnswers : public testing::Test {
 protected:
  explicit UnreadAnswers(Duration stall_limit = Seconds(600))
      : service_(stall_limit), server_(StartServer({&service_})) {
    grpc::ChannelArguments small;  // its caller takes a few bytes before it reads
    small.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    small.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
    small.SetMaxReceiveMessageSize(static_cast<int>(2 * kOne));
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                         grpc::InsecureChannelCredentials(), small);
  }
  // A call with an answer that is not read before `meanwhile` returns. Returns the call's status.
  grpc::Status Unread(const std::function<void(grpc::ClientContext&)>& meanwhile) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    SetDeadline(context, kPatience);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, kMethod, &queue);
    call->StartCall(nullptr);
    Next(queue);
    const grpc::Slice nothing("");
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    Next(queue);
    EXPECT_TRUE(service_.given.Take());
    meanwhile(context);
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    Next(queue);
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next(queue);
    return status;
  }
  static void Next(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }
  // An answer is given back after its caller has it.
  void AwaitEmpty() {
    const SystemClock clock;
    const Instant end = clock.Now() + kPatience;
    while (service_.budget.taken() != 0 && clock.Now() < end) std::this_thread::yield();
    EXPECT_EQ(service_.budget.taken(), size_t{0});
  }

  static constexpr char kMethod[] = "/atoll.v1.JobService/ListJobs";
  Large service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// S30.
TEST_F(UnreadAnswers, TakeTheBudgetUntilTheyAreRead) {
  EXPECT_TRUE(Unread([this](grpc::ClientContext&) {
                EXPECT_GT(service_.budget.taken(), kOne);
                const grpc::Status second = OneCall(channel_, kMethod);
                EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
                EXPECT_NE(second.error_message().find("read them, or ask again"), std::string::npos);
              }).ok());
  AwaitEmpty();
  EXPECT_TRUE(OneCall(channel_, kMethod).ok());
  AwaitEmpty();
}

// S30.
TEST_F(UnreadAnswers, GiveItBackWhenTheirCallersGo) {
  EXPECT_EQ(Unread([this](grpc::ClientContext& context) {
              EXPECT_GT(service_.budget.taken(), kOne);
              context.TryCancel();
              AwaitEmpty();
            }).error_code(),
            grpc::StatusCode::CANCELLED);
}

class SoonCutAnswers : public UnreadAnswers {
 protected:
  SoonCutAnswers() : UnreadAnswers(Milliseconds(50)) {}
};

TEST_F(SoonCutAnswers, GiveItBackAfterTheirTime) {
  EXPECT_FALSE(Unread([this](grpc::ClientContext&) { AwaitEmpty(); }).ok());
}

}  // namespace
}  // namespace atl
