// SPDX-License-Identifier: Apache-2.0
// C3: no message has a loss below 0 or above a million nats.
#include <gtest/gtest.h>

#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/transfer_messages.h"

namespace atl {
namespace {

constexpr int64_t kWrong[] = {-1, limits::kMostLossMicro + 1};
constexpr int64_t kRight[] = {0, limits::kMostLossMicro};

bool IsTaken(const v1::WorkerMessage& message) {
  const absl::Status status = WorkerMessageFromProto(message).status();
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return status.ok();
}

TEST(Losses, OfAHeartbeat) {
  v1::WorkerMessage message = WorkerMessageToProto(Heartbeat{});
  for (const int64_t loss : kRight) {
    message.mutable_heartbeat()->set_loss_micro(loss);
    EXPECT_TRUE(IsTaken(message)) << loss;
  }
  for (const int64_t loss : kWrong) {
    message.mutable_heartbeat()->set_loss_micro(loss);
    EXPECT_FALSE(IsTaken(message)) << loss;
  }
}

TEST(Losses, OfAnEvaluation) {
  v1::WorkerMessage message = WorkerMessageToProto(EvaluationDone{.job = {"j"}});
  EXPECT_TRUE(IsTaken(message));
  message.mutable_evaluation_done()->set_nll_micro_nats(-1);
  EXPECT_FALSE(IsTaken(message)) << "the bound above depends on the tokens: coordinator/core/evaluation.h";
}

TEST(Losses, OfAContribution) {
  ContributionHeader header = {{"tiny"},         {"paris-1"}, {5}, {{1}, {3}}, {7, 8}, 4096,
                               CodecKind::kBf16, 640,         10,  50,         5,      {{{1}, 80}}};
  const auto status = [&](int64_t loss) {
    header.mean_loss_micro = loss;
    return ParseUploadHeader(SerializeUploadHeader(ContributionUpload{header, {}})).status();
  };
  for (const int64_t loss : kRight) EXPECT_TRUE(status(loss).ok()) << loss;
  for (const int64_t loss : kWrong) EXPECT_TRUE(absl::IsInvalidArgument(status(loss))) << loss;
}

}  // namespace
}  // namespace atl
