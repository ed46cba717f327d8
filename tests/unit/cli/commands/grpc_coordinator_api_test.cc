// SPDX-License-Identifier: Apache-2.0
// How the gRPC client handles answers, against a server on loopback.
#include "cli/grpc_coordinator_api.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "atoll/v1/job.grpc.pb.h"
#include "cli/session.h"
#include "common/base/mutex.h"
#include "common/rpc/rpc_status.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;

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
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>* out) override {
    const grpc::Status refusal = Refuse();
    if (refusal.ok()) out->Write({});
    return refusal;
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

class GrpcCoordinatorApiTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
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
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcCoordinatorApiTest, TheCoordinatorsOwnWordIsNoLostConnection) {
  service_.answer = ToGrpc(absl::UnavailableError("a round is being closed; try again"));
  const absl::Status said = Api()->RollbackJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(said));
  EXPECT_EQ(said.message(), "a round is being closed; try again");

  service_.answer = grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");  // an error of the transport
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
