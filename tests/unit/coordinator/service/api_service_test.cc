// SPDX-License-Identifier: Apache-2.0
// Calls over gRPC against a real engine: refused requests, and answers that fit no more.
#include "coordinator/service/api_service.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/job.grpc.pb.h"
#include "common/plan/limits.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

class ApiServiceTest : public testing::Test {
 protected:
  explicit ApiServiceTest(const AnswerBudget::Limits& answers = {}) : guard_(trail_, clock_, answers) {}
  // Makes the call on a thread of its own while the engine turns.
  grpc::Status Call(const std::function<grpc::Status(grpc::ClientContext&)>& call) {
    auto done = std::async(std::launch::async, [&call] {
      grpc::ClientContext context;
      SetDeadline(context, kPatience);
      return call(context);
    });
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) coordinator_.Settle();
    return done.get();
  }
  grpc::Status GetInfo(v1::GetServerInfoResponse& info) {
    return Call([&](grpc::ClientContext& context) { return admins_->GetServerInfo(&context, {}, &info); });
  }
  grpc::Status ListJobs(v1::ListJobsResponse& jobs) {
    return Call([&](grpc::ClientContext& context) { return stub_->ListJobs(&context, {}, &jobs); });
  }
  // Watches the job "tiny" until its first message with a state.
  grpc::Status Watch() {
    return Call([&](grpc::ClientContext& context) {
      v1::WatchJobRequest request;
      request.set_name("jobs/tiny");
      request.set_after_revision(1);
      const auto reader = stub_->WatchJob(&context, request);
      for (v1::WatchJobResponse look; reader->Read(&look);) {
        if (look.has_job()) context.TryCancel();
      }
      return reader->Finish();
    });
  }
  // The lines of the log about the job "tiny"; `follow`: until the first of them.
  grpc::Status Logs(std::vector<std::string>& lines, bool follow = false) {
    return Call([&](grpc::ClientContext& context) {
      v1::StreamJobLogsRequest request;
      request.set_name("jobs/tiny");
      request.set_follow(follow);
      const auto reader = stub_->StreamJobLogs(&context, request);
      for (v1::StreamJobLogsResponse part; reader->Read(&part);) {
        for (const std::string& line : part.lines()) lines.push_back(line);
        if (follow) context.TryCancel();
      }
      return reader->Finish();
    });
  }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator coordinator_{disk_, clock_};
  ManualExecutor calls_;
  Log log_{{.to_stderr = false}};
  AuditTrail trail_{log_, clock_};
  CallGuard guard_;
  JobApi api_{JobApiOptions{.version = "test"}, coordinator_.engine, clock_, log_, calls_, {}};
  std::unique_ptr<grpc::Service> jobs_ = MakeJobService(api_, guard_);
  std::unique_ptr<grpc::Service> admin_ = MakeAdminService(api_, nullptr, guard_);
  std::unique_ptr<Server> server_ = StartServer({jobs_.get(), admin_.get()});
  std::shared_ptr<grpc::Channel> channel_ = *MakeControlChannel(
      {.address = "127.0.0.1:" + std::to_string(server_->port())}, ChannelSecurity::PlaintextLoopback());
  std::unique_ptr<v1::JobService::Stub> stub_ = v1::JobService::NewStub(channel_);
  std::unique_ptr<v1::AdminService::Stub> admins_ = v1::AdminService::NewStub(channel_);
};

TEST_F(ApiServiceTest, AnswersArriveAndAreGivenBack) {
  ASSERT_TRUE(coordinator_.Submit(TinySpec("tiny")).ok());
  log_.Info("hello", {{"job", "tiny"}});
  for (int i = 0; i < 3; ++i) {
    v1::GetServerInfoResponse info;
    const grpc::Status got = GetInfo(info);
    EXPECT_TRUE(got.ok()) << got.error_message();
    EXPECT_EQ(info.version(), "test");
    v1::ListJobsResponse jobs;
    EXPECT_TRUE(ListJobs(jobs).ok());
    ASSERT_EQ(jobs.jobs_size(), 1);
    EXPECT_EQ(jobs.jobs(0).name(), "jobs/tiny");
    std::vector<std::string> lines;
    EXPECT_TRUE(Logs(lines).ok());
    EXPECT_EQ(lines.size(), size_t{1});
    EXPECT_EQ(Watch().error_code(), grpc::StatusCode::CANCELLED) << "it was shown";
    EXPECT_EQ(Logs(lines, true).error_code(), grpc::StatusCode::CANCELLED) << "likewise";
  }
  server_.reset();  // all calls are over
  EXPECT_EQ(guard_.answers().taken(), size_t{0});
}

TEST_F(ApiServiceTest, ARequestThatIsNoneIsRefused) {
  for (const std::string method : {"/atoll.v1.JobService/GetJob", "/atoll.v1.AdminService/GetCheckpoint"}) {
    const grpc::Status refused = OneCall(channel_, method, false, "\xff\xff");
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_NE(refused.error_message().find("the bytes are no atoll.v1.Get"), std::string::npos)
        << refused.error_message();
  }
}

TEST_F(ApiServiceTest, EachCallRefusesManySmallElements) {  // S38
  std::string bytes;
  for (size_t i = 0; i <= limits::kMessageElements; ++i) bytes += std::string("\x7a\0", 2);  // field 15, empty
  ASSERT_LT(bytes.size(), limits::kQueryBytes);
  for (const auto* file : {v1::Job::descriptor()->file(), v1::GetServerInfoRequest::descriptor()->file()}) {
    const auto& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      const grpc::Status refused =
          OneCall(channel_, absl::StrCat("/", service.full_name(), "/", service.method(i)->name()), false, bytes);
      EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << service.method(i)->full_name();
      EXPECT_NE(refused.error_message().find("elements"), std::string::npos) << refused.error_message();
    }
  }
}

TEST_F(ApiServiceTest, EachCallRefusesALongText) {  // S39
  for (const auto* file : {v1::Job::descriptor()->file(), v1::GetServerInfoRequest::descriptor()->file()}) {
    const auto& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      const auto& kind = *service.method(i)->input_type();
      for (int f = 0; f < kind.field_count(); ++f) {
        if (kind.field(f)->is_repeated() || kind.field(f)->type() != google::protobuf::FieldDescriptor::TYPE_STRING)
          continue;
        const std::unique_ptr<google::protobuf::Message> request(
            google::protobuf::MessageFactory::generated_factory()->GetPrototype(&kind)->New());
        request->GetReflection()->SetString(request.get(), kind.field(f), std::string(limits::kTextBytes + 1, 'x'));
        const grpc::Status refused =
            OneCall(channel_, absl::StrCat("/", service.full_name(), "/", service.method(i)->name()), false,
                    request->SerializeAsString());
        EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << kind.full_name();
        EXPECT_EQ(refused.error_message(), kind.field(f)->name() + ": has 4097 bytes; at most 4096 are allowed");
      }
    }
  }
}

class WithoutRoom : public ApiServiceTest {
 protected:
  WithoutRoom() : ApiServiceTest({.all = 4, .of_one = 2}) {}
};

TEST_F(WithoutRoom, AnswersOfAllServicesAreRefused) {
  ASSERT_TRUE(coordinator_.Submit(TinySpec("tiny")).ok());
  log_.Info("hello", {{"job", "tiny"}});
  v1::GetServerInfoResponse info;
  v1::ListJobsResponse jobs;
  std::vector<std::string> lines;
  for (const grpc::Status& refused : {GetInfo(info), ListJobs(jobs), Logs(lines), Logs(lines, true), Watch()}) {
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_NE(refused.error_message().find("the answers that wait for callers without certificate"), std::string::npos)
        << refused.error_message();
  }
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(guard_.answers().taken(), size_t{0});
}

}  // namespace
}  // namespace atl
