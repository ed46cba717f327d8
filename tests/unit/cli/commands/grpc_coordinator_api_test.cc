// SPDX-License-Identifier: Apache-2.0
// How the gRPC client handles answers, against a server on loopback.
#include "cli/grpc_coordinator_api.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/job.grpc.pb.h"
#include "cli/session.h"
#include "common/base/mutex.h"
#include "common/rpc/rpc_status.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// An error of the transport.
grpc::Status Closed() { return {grpc::StatusCode::UNAVAILABLE, "Socket closed"}; }

double SecondsLeft(const grpc::ServerContext& context) {
  const gpr_timespec end = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  return gpr_timespec_to_micros(gpr_time_sub(end, gpr_now(GPR_CLOCK_MONOTONIC))) * 1e-6;
}

class JobServer final : public v1::JobService::Service {
 public:
  grpc::Status answer;
  double left_s = 0;  // remaining time of the last call
  grpc::Status RollbackJob(grpc::ServerContext* context, const v1::RollbackJobRequest*,
                           v1::RollbackJobResponse*) override {
    left_s = SecondsLeft(*context);
    return answer;
  }
  grpc::Status PauseJob(grpc::ServerContext* context, const v1::PauseJobRequest*, v1::PauseJobResponse*) override {
    left_s = SecondsLeft(*context);
    return answer;
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::ResumeJobResponse*) override {
    const MutexLock lock(mutex_);
    while (!let_go_) changed_.Wait(mutex_);
    return answer;
  }
  int refused = 0;  // queries that are refused before the first answer
  int asked = 0;
  grpc::Status Refuse() {
    return ++asked > refused ? grpc::Status::OK : ToGrpc(absl::ResourceExhaustedError("asks too often"));
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse*) override { return Refuse(); }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override {
    return Refuse();
  }
  // Both send one message first.
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    if (const grpc::Status refusal = Refuse(); !refusal.ok()) return refusal;
    writer->Write({});
    return answer;
  }
  grpc::Status StreamJobLogs(grpc::ServerContext*, const v1::StreamJobLogsRequest*,
                             grpc::ServerWriter<v1::StreamJobLogsResponse>* writer) override {
    writer->Write({});
    return answer;
  }
  // From now on a resume is answered.
  void LetGo() {
    const MutexLock lock(mutex_);
    let_go_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool let_go_ ATOLL_GUARDED_BY(mutex_) = false;
};

class AdminServer final : public v1::AdminService::Service {
 public:
  grpc::Status answer;
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse*) override {
    return answer;
  }
};

class GrpcCoordinatorApiTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override { server_->Shutdown(); }

  std::unique_ptr<CoordinatorApi> Api(std::optional<Instant> deadline = std::nullopt) const {
    return MakeGrpcCoordinatorApi(absl::StrCat("127.0.0.1:", port_), "", passphrases_, deadline, clock_);
  }

  SystemClock clock_;
  mutable Passphrases passphrases_{"", nullptr};  // no identity
  JobServer service_;
  AdminServer admin_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcCoordinatorApiTest, TheCoordinatorsOwnWordIsNoLostConnection) {
  service_.answer = ToGrpc(absl::UnavailableError("a round is being closed; try again"));
  const absl::Status said = Api()->RollbackJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(said));
  EXPECT_EQ(said.message(), "a round is being closed; try again");

  service_.answer = Closed();
  EXPECT_THAT(std::string(Api()->RollbackJob({}).status().message()),
              AllOf(HasSubstr("the connection to the coordinator at 127.0.0.1:"), HasSubstr("broke (Socket closed)")));
  admin_.answer = Closed();
  EXPECT_THAT(std::string(Api()->RollbackJob({}).status().message()), HasSubstr("cannot reach the coordinator at"));
}

TEST_F(GrpcCoordinatorApiTest, QueriesThatAreRefusedAsTooManyAreRepeated) {
  service_.refused = 1;
  EXPECT_TRUE(Api()->GetJob({}).ok());
  EXPECT_EQ(service_.asked, 2);
  service_.asked = 0;
  int shown = 0;
  EXPECT_TRUE(Api()->WatchJob({}, [&](const v1::WatchJobResponse&) { return ++shown > 0; }).ok());
  EXPECT_EQ(service_.asked, 2);
  EXPECT_EQ(shown, 1);
  service_.asked = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(Api()->CancelJob({}).status())) << "it may have no room";
  EXPECT_EQ(service_.asked, 1);

  service_.refused = 100;
  const absl::Status refused = Api()->GetJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << "exit code 5: to be repeated";
  EXPECT_EQ(refused.message(), "asks too often");
}

// The coordinator closes the connections of a revoked identity, and refuses its next call.
TEST_F(GrpcCoordinatorApiTest, EveryCallThatARevocationEndsTellsIt) {
  const absl::Status revoked = absl::PermissionDeniedError("the certificate of viewer 'v' was revoked");
  service_.answer = Closed();
  admin_.answer = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, std::string(revoked.message()));
  int messages = 0;
  const auto count = [&messages](const auto&) { return ++messages > 0; };
  const auto api = Api();
  for (const absl::Status& ended :
       {api->StreamJobLogs({}, count), api->WatchJob({}, count), api->RollbackJob({}).status()}) {
    EXPECT_EQ(ended.code(), revoked.code()) << ended;
    EXPECT_EQ(ended.message(), revoked.message());
  }
  EXPECT_EQ(messages, 2) << "what came before is shown";
}

TEST_F(GrpcCoordinatorApiTest, ACallHasTheTimeThatIsLeft) {
  ASSERT_TRUE(Api()->PauseJob({}).ok());
  EXPECT_LE(service_.left_s, 12);  // the protocol rounds up
  ASSERT_TRUE(Api()->RollbackJob({}).ok());
  EXPECT_GT(service_.left_s, 500);
  ASSERT_TRUE(Api(clock_.Now() + Seconds(100))->PauseJob({}).ok());
  EXPECT_GT(service_.left_s, 60);
  ASSERT_TRUE(Api(clock_.Now() + Seconds(100))->RollbackJob({}).ok());
  EXPECT_LE(service_.left_s, 110);
  EXPECT_EQ(Api(clock_.Now() + Milliseconds(50))->ResumeJob({}).status(), TimeoutHasPassed());
  service_.LetGo();
}

}  // namespace
}  // namespace atl::cli
