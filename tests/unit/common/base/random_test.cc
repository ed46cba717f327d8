// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace atl {
namespace {

using Words = std::array<uint32_t, 4>;

// The three philox4x32-10 lines of the file kat_vectors of Random123 (Salmon et al. 2011).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(UINT64_MAX, UINT64_MAX, UINT64_MAX), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The example of docs/formats/data-order.md.
TEST(StreamKey, IsAsDocumented) { EXPECT_EQ(StreamKey(7, "order/tiny"), 0x96d3d2e1c56ecf9a); }

TEST(Permute, IsAsDocumented) {
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 10; ++i) order.push_back(Permute(7, 10, i));
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 8, 4, 7, 6, 1, 0, 5, 9, 3}));
}

TEST(StreamKey, NamesAndSeedsGiveDifferentKeys) {
  EXPECT_EQ(StreamKey(7, "init"), StreamKey(7, "init"));
  EXPECT_NE(StreamKey(7, "init"), StreamKey(8, "init"));
  EXPECT_NE(StreamKey(7, "init"), StreamKey(7, "order"));
  EXPECT_NE(StreamKey(7, ""), StreamKey(7, std::string_view("\0", 1)));
}

TEST(NormalAt, MomentsOfAStandardNormal) {
  constexpr int kSamples = 200'000;
  const uint64_t key = StreamKey(1, "moments");
  double sum = 0, squares = 0, fourth = 0;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const double x = NormalAt(key, i);
    ASSERT_TRUE(std::isfinite(x)) << i;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  // Five standard errors of each estimate.
  EXPECT_NEAR(sum / kSamples, 0, 5 * std::sqrt(1.0 / kSamples));
  EXPECT_NEAR(squares / kSamples, 1, 5 * std::sqrt(2.0 / kSamples));
  EXPECT_NEAR(fourth / kSamples, 3, 5 * std::sqrt(96.0 / kSamples));
}

TEST(NormalAt, AnElementDoesNotDependOnTheOthers) {
  EXPECT_EQ(NormalAt(3, 1000), NormalAt(3, 1000));
  EXPECT_NE(NormalAt(3, 1000), NormalAt(3, 1001));
  EXPECT_NE(NormalAt(3, 1000), NormalAt(4, 1000));
}

class PermuteTest : public testing::TestWithParam<uint64_t> {};

TEST_P(PermuteTest, IsABijection) {
  const uint64_t n = GetParam();
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, StreamKey(9, "order")}) {
    std::vector<bool> seen(n, false);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = Permute(key, n, i);
      ASSERT_LT(to, n);
      ASSERT_FALSE(seen[to]) << "two indices of " << n << " go to " << to;
      seen[to] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PermuteTest,
                         testing::Values(1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 1000, 1024, 1025, 65'537));

TEST(Permute, KeysGiveDifferentOrders) {
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += Permute(1, 1000, i) == Permute(2, 1000, i);
  EXPECT_LT(same, 20);  // one is expected
}

TEST(Permute, MovesNeighboursApart) {
  double distance = 0;
  for (uint64_t i = 0; i + 1 < 10'000; ++i) {
    distance += std::abs(static_cast<double>(Permute(5, 10'000, i)) - static_cast<double>(Permute(5, 10'000, i + 1)));
  }
  EXPECT_NEAR(distance / 9'999 / 10'000, 1.0 / 3, 0.02);  // of two independent uniform values
}

TEST(Permute, WorksOnTheLargestDomains) {
  for (const uint64_t n : {uint64_t{1} << 40, (uint64_t{1} << 62) + 1, UINT64_MAX}) {
    EXPECT_LT(Permute(1, n, 0), n);
    EXPECT_NE(Permute(1, n, 0), Permute(1, n, n - 1));
  }
}

TEST(PermuteDeathTest, RefusesAnIndexOutside) { EXPECT_DEATH(Permute(1, 10, 10), "index < n"); }

TEST(Rng, BelowIsUniform) {
  Rng rng(StreamKey(1, "below"));
  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) ++counts.at(rng.Below(6));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 5 * std::sqrt(10'000.0 * 5 / 6));
}

TEST(Rng, BelowOneIsZero) {
  Rng rng(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.Below(1), 0u);
}

TEST(Rng, UniformStaysInsideItsRange) {
  Rng rng(2);
  double lowest = 1, highest = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.Uniform();
    lowest = std::min(lowest, x);
    highest = std::max(highest, x);
  }
  EXPECT_GE(lowest, 0);
  EXPECT_LT(highest, 1);
  EXPECT_LT(lowest, 1e-3);
  EXPECT_GT(highest, 1 - 1e-3);
}

TEST(Rng, TheSameKeyRepeats) {
  Rng a(11), b(11);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a(), b());
}

}  // namespace
}  // namespace atl
