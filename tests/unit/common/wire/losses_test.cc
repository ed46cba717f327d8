// SPDX-License-Identifier: Apache-2.0
// C3: no loss below 0 or above a million nats passes, except in an evaluation, which the core judges.
#include <gtest/gtest.h>

#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/record_messages.h"
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

// The core judges it (coordinator/core/evaluation.h). A refusal would end the stream, and the worker would report the
// same after each reconnect.
TEST(Losses, OfAnEvaluationPass) {
  for (const int64_t nll : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX}) {
      const TaskScore score{"no such task", count, UINT64_MAX, count};
      const EvaluationDone said{{"j"}, count, nll, count, count, {score}, ""};
      const absl::StatusOr<WorkerMessage> heard = WorkerMessageFromProto(WorkerMessageToProto(said));
      ASSERT_TRUE(heard.ok()) << heard.status();
      const auto& done = std::get<EvaluationDone>(*heard);
      EXPECT_EQ(done.evaluation, count);
      EXPECT_EQ(done.nll_micro_nats, nll);
      EXPECT_EQ(done.tokens, count);
      EXPECT_EQ(done.text_bytes, count);
      EXPECT_EQ(done.tasks, said.tasks);
    }
  }
}

// Scores that the core has judged are on the disk: others mean damage.
TEST(TaskScores, OfARecordMustBePossible) {
  const auto read = [](const TaskScore& score) { return ParseTaskScores(SerializeTaskScores({score})).status(); };
  EXPECT_EQ(read({"t", 10, 10, 10}), absl::OkStatus());
  for (const TaskScore& score : std::vector<TaskScore>{
           {"a b", 10, 5, {}}, {"t", 0, 0, {}}, {"t", 10, 11, {}}, {"t", 10, 5, 11}, {"t", UINT64_MAX, 5, {}}})
    EXPECT_TRUE(absl::IsDataLoss(read(score))) << read(score);
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
