// What the gRPC side of the command line makes of answers, against a server on loopback.
#include "cli/grpc_coordinator_api.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "atoll/v1/job.grpc.pb.h"
#include "common/rpc/rpc_status.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;

class JobServer final : public v1::JobService::Service {
 public:
  grpc::Status answer;
  grpc::Status RollbackJob(grpc::ServerContext*, const v1::RollbackJobRequest*, v1::RollbackJobResponse*) override {
    return answer;
  }
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
    return MakeGrpcCoordinatorApi(absl::StrCat("127.0.0.1:", port_), "", deadline, clock_);
  }

  SystemClock clock_;
  JobServer service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcCoordinatorApiTest, TheCoordinatorsOwnWordIsNoLostConnection) {
  service_.answer = ToGrpc(absl::UnavailableError("a round is being closed; try again"));
  const absl::Status said = Api()->RollbackJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(said));
  EXPECT_EQ(said.message(), "a round is being closed; try again");

  service_.answer = grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");  // by the transport
  EXPECT_THAT(std::string(Api()->RollbackJob({}).status().message()), HasSubstr("cannot reach the coordinator at"));
}

}  // namespace
}  // namespace atl::cli
