// SPDX-License-Identifier: Apache-2.0
// The cosine of each contribution to the merge of the others.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "coordinator/aggregate/aggregator.h"

namespace atl {
namespace {

struct Sent {
  std::vector<float> delta;
  uint64_t tokens = 100;
};

// The cosines for workers a, b and so on, in a fragment of two elements.
std::vector<std::optional<double>> Cosines(const std::vector<Sent>& round, MergeRule rule = MergeRule::kMean) {
  ModelLayout layout;
  layout.elements = 2;
  layout.fragments = {{0, 2, {}}};
  Aggregator aggregator(layout);
  std::vector<RoundInput> inputs;
  for (const Sent& sent : round) {
    const std::string name(1, static_cast<char>('a' + inputs.size()));
    inputs.push_back({WorkerId{name}, CodecKind::kFp32, AsBytes(std::span(sent.delta)), sent.tokens, 10});
  }
  const auto result =
      aggregator.CloseRound(FragmentIndex{0}, Version{0}, inputs,
                            {.kind = OuterKind::kSgd, .learning_rate = 1, .merge = {.rule = rule}, .inner_steps = 10});
  std::vector<std::optional<double>> cosines;
  if (!result.ok() || !result->committed) return cosines;
  for (const ContributionReport& c : result->contributions) {
    cosines.push_back(c.cosine_to_others);
    EXPECT_TRUE(rule == MergeRule::kMean || c.cosine_to_others == c.cosine_to_merged);
  }
  return cosines;
}

// Weights 1/2, 1/4, 1/4: relative to b the others are (2, 0) / 2 + (0, 4) / 4.
TEST(DirectionToTheOthers, ExcludesTheContributionItself) {
  const auto cosines = Cosines({{{2, 0}, 200}, {{0, -3}}, {{0, 4}}});
  ASSERT_EQ(cosines.size(), 3u);
  EXPECT_NEAR(cosines[0].value_or(9), 0, 1e-12);
  EXPECT_NEAR(cosines[1].value_or(9), -std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(cosines[2].value_or(9), -0.6, 1e-12);
}

TEST(DirectionToTheOthers, IsNoneWhereThereIsNothingToCompareWith) {
  EXPECT_EQ(Cosines({{{1, 2}}}), std::vector<std::optional<double>>{std::nullopt}) << "alone";
  EXPECT_FALSE(Cosines({{{2, 0}}, {{0, -4}}, {{0, 4}}}).at(0).has_value()) << "the others cancel out";
  EXPECT_FALSE(Cosines({{{2, 0}}, {{0, 0}}, {{0, 4}}}).at(1).has_value()) << "it holds nothing";
}

TEST(DirectionToTheOthers, UnderARobustRuleItIsToTheMerge) {
  EXPECT_EQ(Cosines({{{2, 0}}, {{0, 1}}, {{0, 4}}}, MergeRule::kMedian).size(), 3u);
}

}  // namespace
}  // namespace atl
