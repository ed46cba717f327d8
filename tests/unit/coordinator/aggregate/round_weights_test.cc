// SPDX-License-Identifier: Apache-2.0
// Weights of a round: each rule, and the cases in which no worker has a weight.
#include <vector>

#include "coordinator/aggregate/aggregator.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

std::vector<RoundInput> Inputs(std::vector<std::pair<uint64_t, uint64_t>> tokens_and_steps) {
  std::vector<RoundInput> inputs;
  for (const auto& [tokens, steps] : tokens_and_steps) {
    RoundInput input;
    input.tokens = tokens;
    input.steps = steps;
    inputs.push_back(input);
  }
  return inputs;
}

TEST(RoundWeights, TokensWeighInProportion) {
  EXPECT_EQ(RoundWeights(WeightRule::kTokens, 10, Inputs({{100, 10}, {300, 10}})), (std::vector<double>{0.25, 0.75}));
}

TEST(RoundWeights, UniformWeighsFewerStepsInProportionAndMoreNotAtAll) {
  EXPECT_EQ(RoundWeights(WeightRule::kUniform, 10, Inputs({{1, 10}, {9, 10}})), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(RoundWeights(WeightRule::kUniform, 8, Inputs({{1, 4}, {1, 4}, {1, 16}})),
            (std::vector<double>{0.25, 0.25, 0.5}));
}

TEST(RoundWeights, TokensSquaredOverSteps) {
  EXPECT_EQ(RoundWeights(WeightRule::kTokensSquaredOverSteps, 1, Inputs({{4, 4}, {8, 4}})),
            (std::vector<double>{0.2, 0.8}));
}

TEST(RoundWeights, ShardSizeWeighsFewerStepsInProportion) {
  std::vector<RoundInput> inputs = Inputs({{1, 10}, {9, 10}, {9, 20}});
  inputs[0].shard_samples = 100;
  inputs[1].shard_samples = inputs[2].shard_samples = 200;
  EXPECT_EQ(RoundWeights(WeightRule::kShardSize, 10, inputs), (std::vector<double>{0.2, 0.4, 0.4}));
  inputs[1].steps = 5;
  EXPECT_EQ(RoundWeights(WeightRule::kShardSize, 10, inputs), (std::vector<double>{0.25, 0.25, 0.5}));
}

TEST(RoundWeights, WeightIsZeroWithoutStepsUnlessAllAre) {
  EXPECT_EQ(RoundWeights(WeightRule::kTokens, 10, Inputs({{0, 0}, {300, 10}})), (std::vector<double>{0, 1}));
  EXPECT_EQ(RoundWeights(WeightRule::kUniform, 10, Inputs({{0, 0}, {0, 0}})), (std::vector<double>{0.5, 0.5}));
  EXPECT_TRUE(RoundWeights(WeightRule::kUniform, 10, {}).empty());
}

TEST(ClosingMomentum, IsTheShareOfThePeriodAfterTheRound) {
  EXPECT_DOUBLE_EQ(ClosingMomentum(0.9, 10, Inputs({{1, 1}})), 0.09);
  EXPECT_DOUBLE_EQ(ClosingMomentum(0.9, 10, Inputs({{1, 2}, {1, 5}, {1, 0}})), 0.45);
  EXPECT_EQ(ClosingMomentum(0.9, 10, Inputs({{1, 2}, {1, 10}})), 0.9);
  EXPECT_EQ(ClosingMomentum(0.9, 10, Inputs({{1, 25}})), 0.9);
  EXPECT_EQ(ClosingMomentum(0.9, 10, Inputs({{1, 0}})), 0);
}

}  // namespace
}  // namespace atl
