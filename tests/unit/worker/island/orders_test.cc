// SPDX-License-Identifier: Apache-2.0
#include "worker/island/orders.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(IslandOrders, ComeBackAsTheyWere) {
  const auto prepare = DecodeOrder(EncodeOrder(PrepareOrder{"the spec", 7, 1 << 20, {3, 4}}));
  ASSERT_TRUE(prepare.ok());
  EXPECT_EQ(std::get<PrepareOrder>(*prepare).spec, "the spec");
  EXPECT_EQ(std::get<PrepareOrder>(*prepare).end_of_text, 7);
  EXPECT_EQ(std::get<PrepareOrder>(*prepare).layout, (Digest{3, 4}));
  const auto step = DecodeOrder(EncodeOrder(StepOrder{1e-3, 12, 2, {1, 2, 3, 4, 5, 6}}));
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(std::get<StepOrder>(*step).learning_rate, 1e-3);
  EXPECT_EQ(std::get<StepOrder>(*step).targets, 12u);
  EXPECT_EQ(std::get<StepOrder>(*step).tokens, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  const auto parameters = DecodeOrder(EncodeOrder(ParametersOrder{5, 6}));
  ASSERT_TRUE(parameters.ok());
  EXPECT_EQ(std::get<ParametersOrder>(*parameters).elements, 6u);
  EXPECT_TRUE(std::holds_alternative<OptimizerOrder>(*DecodeOrder(EncodeOrder(OptimizerOrder{9}))));
  EXPECT_TRUE(std::holds_alternative<ReleaseOrder>(*DecodeOrder(EncodeOrder(ReleaseOrder{}))));
  EXPECT_TRUE(std::holds_alternative<LeaveOrder>(*DecodeOrder(EncodeOrder(LeaveOrder{}))));
}

TEST(IslandOrders, RefusesMalformedOrders) {
  EXPECT_FALSE(DecodeOrder(std::string(1, '\x09')).ok());
  EXPECT_FALSE(DecodeOrder(EncodeOrder(LeaveOrder{}) + "x").ok());
  for (const IslandOrder& order : std::vector<IslandOrder>{PrepareOrder{}, ParametersOrder{}, OptimizerOrder{}}) {
    const std::string bytes = EncodeOrder(order);
    for (size_t size = 1; size < bytes.size(); ++size) EXPECT_FALSE(DecodeOrder(bytes.substr(0, size)).ok()) << size;
  }
  const std::string step = EncodeOrder(StepOrder{1e-3, 12, 2, {1, 2, 3, 4, 5, 6}});
  EXPECT_FALSE(DecodeOrder(step.substr(0, step.size() - 1)).ok());
  EXPECT_FALSE(DecodeOrder(step.substr(0, step.size() - 4)).ok()) << "two sequences of five tokens";
  EXPECT_FALSE(DecodeOrder(step + "x").ok());
  EXPECT_FALSE(DecodeOrder(EncodeOrder(StepOrder{1e-3, 12, 0, {1}})).ok());
}

TEST(IslandOrders, AnswersKeepTheirCode) {
  EXPECT_TRUE(DecodeAnswer(EncodeAnswer(absl::OkStatus())).ok());
  const absl::Status full = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(DecodeAnswer(EncodeAnswer(full)), full);
  EXPECT_FALSE(DecodeAnswer("").ok());
}

}  // namespace
}  // namespace atl
