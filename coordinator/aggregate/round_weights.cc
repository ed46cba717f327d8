// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl {
namespace {

double RawWeight(WeightRule rule, uint32_t inner_steps, const RoundInput& input) {
  if (input.steps == 0) return 0;
  const double tokens = static_cast<double>(input.tokens);
  const double steps = static_cast<double>(input.steps);
  switch (rule) {
    case WeightRule::kUniform: return std::min(1.0, steps / inner_steps);
    case WeightRule::kShardSize: return static_cast<double>(input.shard_samples) * std::min(1.0, steps / inner_steps);
    case WeightRule::kTokens: return tokens;
    case WeightRule::kTokensSquaredOverSteps: return tokens * tokens / steps;
  }
  ATOLL_CHECK(false, "a weight rule outside the enumeration");
}

}  // namespace

std::vector<double> RoundWeights(WeightRule rule, uint32_t inner_steps, std::span<const RoundInput> inputs) {
  ATOLL_CHECK(inner_steps >= 1, "a period has at least one step");
  std::vector<double> weights;
  double sum = 0;
  for (const RoundInput& input : inputs) {
    weights.push_back(RawWeight(rule, inner_steps, input));
    sum += weights.back();
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(weights.size());
  return weights;
}

std::vector<double> EvenWeights(std::vector<double> weights) {
  const auto counted = std::count_if(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
  for (double& weight : weights) weight = weight > 0 ? 1.0 / static_cast<double>(counted) : 0.0;
  return weights;
}

double ClosingMomentum(double momentum, uint32_t inner_steps, std::span<const RoundInput> inputs) {
  ATOLL_CHECK(inner_steps >= 1, "a period has at least one step");
  uint64_t most = 0;
  for (const RoundInput& input : inputs) most = std::max(most, input.steps);
  return most >= inner_steps ? momentum : momentum * static_cast<double>(most) / inner_steps;
}

}  // namespace atl
