// SPDX-License-Identifier: Apache-2.0
#include "common/format/bigram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/random.h"

namespace atl {
namespace {

// Counted by hand: 0 1 0 1 0 2 over a vocabulary of 3.
TEST(Bigram, FormulaByHand) {
  BigramModel model(3);
  const std::vector<uint32_t> ids = {0, 1, 0, 1, 0, 2};
  ASSERT_TRUE(model.Count(ids, false));
  // c(0,1) = 2, c(0,2) = 1, c(0) = 3, f(0) = 2, p1(1) = (2 + 1) / (6 + 3).
  EXPECT_DOUBLE_EQ(model.Probability(0, 1), (2 + 2 * (3.0 / 9)) / 5);
  EXPECT_DOUBLE_EQ(model.Probability(0, 0), (0 + 2 * (4.0 / 9)) / 5);
  EXPECT_DOUBLE_EQ(model.Probability(2, 1), 3.0 / 9);  // no pair begins with 2
  uint64_t scored = 0;
  const std::vector<uint32_t> probe = {0, 1, 1};
  EXPECT_DOUBLE_EQ(model.Score(probe, scored), -std::log(model.Probability(0, 1)) - std::log(model.Probability(1, 1)));
  EXPECT_EQ(scored, 2u);
}

TEST(Bigram, ProbabilitiesAddUpToOne) {
  BigramModel model(50);
  Rng rng(5);
  std::vector<uint32_t> ids(500);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(rng.Below(40));
  model.Count(ids, false);
  for (uint32_t before = 0; before < 50; ++before) {
    double sum = 0;
    for (uint32_t token = 0; token < 50; ++token) sum += model.Probability(before, token);
    EXPECT_NEAR(sum, 1, 1e-12) << before;
  }
}

TEST(Bigram, PartsContinue) {
  const std::vector<uint32_t> ids = {0, 1, 2, 1, 0};
  BigramModel whole(3), parts(3);
  whole.Count(ids, false);
  parts.Count(std::span(ids).first(2), false);
  parts.Count(std::span(ids).subspan(2), true);
  for (uint32_t a = 0; a < 3; ++a) {
    for (uint32_t b = 0; b < 3; ++b) EXPECT_EQ(whole.Probability(a, b), parts.Probability(a, b));
  }
}

TEST(Bigram, AFullTableIgnoresFurtherText) {
  BigramModel model(10, /*max_pairs=*/3);
  const std::vector<uint32_t> ids = {0, 1, 2, 3, 4};
  EXPECT_TRUE(model.Count(ids, false));
  EXPECT_FALSE(model.Count(ids, false));
  EXPECT_EQ(model.counted_tokens(), 5u);
}

}  // namespace
}  // namespace atl
