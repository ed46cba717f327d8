// SPDX-License-Identifier: Apache-2.0
// Waits for gRPC's own threads before the process ends: memory that they hold during a shutdown
// counts as leaked.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

namespace atl {
namespace {

class GrpcEnds final : public testing::Environment {
 public:
  void SetUp() override { grpc_init(); }
  void TearDown() override { grpc_shutdown_blocking(); }
};

const testing::Environment* const kGrpcEnds = testing::AddGlobalTestEnvironment(new GrpcEnds);

}  // namespace
}  // namespace atl
