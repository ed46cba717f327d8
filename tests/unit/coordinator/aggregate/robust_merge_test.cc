// SPDX-License-Identifier: Apache-2.0
// Merge rules that tolerate hostile contributions: against plain loops, and under hostile
// contributions.
#include "coordinator/aggregate/robust_merge.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/aggregator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

using aggregate::Pulls;
using aggregate::RowMerger;
using aggregate::TrimCount;
using testing::ElementsAre;
using testing::FloatEq;

using Rows = std::vector<std::vector<float>>;

// ---- the rules, on rows

RowMerger Filled(const MergeSpec& merge, const Rows& rows) {
  RowMerger merger(merge, rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), merger.Row(r, rows[r].size()).begin());
  }
  return merger;
}

std::vector<float> MiddleOf(const MergeSpec& merge, const Rows& rows) {
  std::vector<float> middle(rows[0].size());
  Filled(merge, rows).Middle(middle);
  return middle;
}

TEST(TrimCount, IsTheShareRoundedDownAndLeavesOneOrTwo) {
  const MergeSpec quarter = {.rule = MergeRule::kTrimmedMean, .trim_share = 0.25};
  EXPECT_EQ(TrimCount(quarter, 3), 0u);
  EXPECT_EQ(TrimCount(quarter, 4), 1u);
  EXPECT_EQ(TrimCount(quarter, 8), 2u);
  EXPECT_EQ(TrimCount({.rule = MergeRule::kTrimmedMean, .trim_share = 0.49}, 2), 0u);
  EXPECT_EQ(TrimCount({.rule = MergeRule::kMedian}, 5), 2u);
  EXPECT_EQ(TrimCount({.rule = MergeRule::kMedian}, 6), 2u);
  EXPECT_EQ(TrimCount({.rule = MergeRule::kMedian}, 0), 0u);
}

TEST(RowMerger, TheMedianIsTheMiddleValueOrTheMeanOfTwo) {
  const MergeSpec median = {.rule = MergeRule::kMedian};
  EXPECT_THAT(MiddleOf(median, {{1, -9}, {7, 2}, {3, 1}}), ElementsAre(3, 1));
  EXPECT_THAT(MiddleOf(median, {{1, 0}, {7, 0}, {3, 0}, {-100, 8}}), ElementsAre(2, 0));
  EXPECT_THAT(MiddleOf(median, {{5, 6}}), ElementsAre(5, 6));
}

TEST(RowMerger, TheTrimmedMeanLeavesOutBothEnds) {
  const MergeSpec quarter = {.rule = MergeRule::kTrimmedMean, .trim_share = 0.25};
  EXPECT_THAT(MiddleOf(quarter, {{1, 4}, {2, 3}, {1000, 2}, {3, -1000}}), ElementsAre(2.5f, 2.5f));
}

TEST(RowMerger, MiddleIsThatOfAPlainSortForAnyNumberOfRows) {
  for (size_t count = 1; count <= 33; ++count) {
    for (const double share : {0.0, 0.1, 0.25, 0.4}) {
      const MergeSpec merge = {.rule = MergeRule::kTrimmedMean, .trim_share = share};
      Rows rows(count, std::vector<float>(37));
      Rng rng(count);
      for (std::vector<float>& row : rows) {
        for (float& x : row) x = static_cast<float>(static_cast<int>(rng.Below(9)) - 4);
      }
      const std::vector<float> middle = MiddleOf(merge, rows);
      const size_t trim = TrimCount(merge, count);
      for (size_t k = 0; k < middle.size(); ++k) {
        std::vector<float> column;
        for (const std::vector<float>& row : rows) column.push_back(row[k]);
        std::sort(column.begin(), column.end());
        float sum = 0;
        for (size_t i = trim; i < count - trim; ++i) sum += column[i];
        ASSERT_THAT(middle[k], FloatEq(sum / static_cast<float>(count - 2 * trim))) << count << " rows, " << share;
      }
    }
  }
}

TEST(Pulls, NoDifferenceCountsForMoreThanTheRadius) {
  const MergeSpec merge = {.rule = MergeRule::kCenteredClip, .clip_radius = 2};
  EXPECT_THAT(Pulls(merge, std::vector<double>{1, 2, 3, 40}), ElementsAre(0.25f, 0.25f, 0.25f, 0.025f));
  EXPECT_THAT(Pulls(merge, std::vector<double>{0, 0, 0, 0}), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
}

TEST(RowMerger, PullsFromTheMiddleTowardsEachRow) {
  const MergeSpec merge = {.rule = MergeRule::kCenteredClip};
  RowMerger merger = Filled(merge, {{1, 1}, {2, 0}, {9, 4}});
  std::vector<float> middle(2), g(2);
  merger.Middle(middle);
  EXPECT_THAT(middle, ElementsAre(2, 1));
  std::vector<double> squares(3);
  merger.AddSquares(middle, squares);
  EXPECT_THAT(squares, ElementsAre(1, 1, 58));
  merger.Pull(middle, std::vector<float>{0.5f, 0.25f, 0.125f}, g);
  EXPECT_THAT(g, ElementsAre(2 - 0.5f + 0.875f, 1 - 0.25f + 0.375f));
}

// ---- whole rounds

constexpr size_t kElements = 3 * kCodecBlock + 77;

ModelLayout OneFragment() {
  ModelLayout layout;
  layout.elements = kElements;
  layout.fragments.push_back({0, kElements, {}});
  layout.digest = {1, 2};
  return layout;
}

struct Fleet {
  std::vector<std::vector<std::byte>> encoded;
  std::vector<RoundInput> inputs;
  std::vector<float> honest_mean = std::vector<float>(kElements);
};

// Honest workers agree on a direction and differ by noise; hostile workers send `hostile` of it.
Fleet FleetOf(size_t honest, size_t hostile_workers, const std::function<float(float)>& hostile) {
  Fleet fleet;
  for (size_t w = 0; w < honest + hostile_workers; ++w) {
    std::vector<float> x(kElements);
    for (size_t k = 0; k < kElements; ++k) {
      const float direction = NormalAt(1, k);
      x[k] = w < honest ? 0.01f * (direction + NormalAt(10 + w, k)) : hostile(0.01f * direction);
      if (w < honest) fleet.honest_mean[k] += x[k] / static_cast<float>(honest);
    }
    fleet.encoded.emplace_back(EncodedSize(CodecKind::kFp32, kElements));
    Encode(CodecKind::kFp32, x, fleet.encoded.back());
  }
  for (size_t w = 0; w < fleet.encoded.size(); ++w) {
    // Hostile workers, first by name, also claim a huge amount of training.
    const uint64_t tokens = w < honest ? 100 : 1'000'000'000;
    fleet.inputs.push_back(
        {WorkerId{(w < honest ? "h" : "a") + std::to_string(w)}, CodecKind::kFp32, fleet.encoded[w], tokens, 10});
  }
  return fleet;
}

// The merge of one round, as plain SGD with a rate of 1 from zero parameters.
std::vector<float> Merged(const Fleet& fleet, const MergeSpec& merge, unsigned threads = 1) {
  Aggregator aggregator(OneFragment());
  const OuterParameters outer = {.kind = OuterKind::kSgd, .learning_rate = 1, .merge = merge, .inner_steps = 10};
  const auto result = aggregator.CloseRound({0}, {}, fleet.inputs, outer, threads);
  EXPECT_TRUE(result.ok() && result->committed) << result.status();
  std::vector<float> g;
  for (const float x : aggregator.State({0}).public_copy) g.push_back(-x);
  return g;
}

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& wanted) {
  double apart = 0, length = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    apart += std::pow(static_cast<double>(a[k]) - static_cast<double>(wanted[k]), 2);
    length += std::pow(static_cast<double>(wanted[k]), 2);
  }
  return std::sqrt(apart / length);
}

constexpr MergeSpec kRobust[] = {
    {.rule = MergeRule::kTrimmedMean}, {.rule = MergeRule::kMedian}, {.rule = MergeRule::kCenteredClip}};

TEST(RobustMerge, HonestWorkersGiveAboutTheMean) {
  const Fleet fleet = FleetOf(8, 0, {});
  for (const MergeSpec& merge : kRobust) EXPECT_LT(RelativeDistance(Merged(fleet, merge), fleet.honest_mean), 0.25);
  EXPECT_LT(RelativeDistance(Merged(fleet, {.rule = MergeRule::kTrimmedMean, .trim_share = 0}), fleet.honest_mean),
            1e-6);
  EXPECT_LT(RelativeDistance(Merged(fleet, {.rule = MergeRule::kCenteredClip, .clip_radius = 1000}), fleet.honest_mean),
            1e-6);
}

TEST(RobustMerge, TwoHostileOfEightMoveOnlyTheMean) {
  const std::function<float(float)> attacks[] = {[](float x) { return -x; }, [](float x) { return -100 * x; },
                                                 [](float) { return 1e6f; }};
  for (size_t attack = 0; attack < std::size(attacks); ++attack) {
    const Fleet fleet = FleetOf(6, 2, attacks[attack]);
    for (const MergeSpec& merge : kRobust) {
      EXPECT_LT(RelativeDistance(Merged(fleet, merge), fleet.honest_mean), 0.75)
          << "attack " << attack << ", rule " << static_cast<int>(merge.rule);
    }
    EXPECT_GT(RelativeDistance(Merged(fleet, {}), fleet.honest_mean), 0.99) << "the mean, attack " << attack;
  }
}

TEST(RobustMerge, DoesNotDependOnThreadsAndArrival) {
  Fleet fleet = FleetOf(5, 1, [](float x) { return -x; });
  for (const MergeSpec& merge : kRobust) {
    const std::vector<float> one = Merged(fleet, merge);
    std::reverse(fleet.inputs.begin(), fleet.inputs.end());
    EXPECT_EQ(Merged(fleet, merge, 3), one);
  }
}

TEST(RobustMerge, CountsSingleStepWorkersEqually) {
  Fleet fleet = FleetOf(4, 0, {});
  fleet.inputs[1].steps = 0;
  fleet.inputs[2].tokens = 1;
  Aggregator aggregator(OneFragment());
  const OuterParameters outer = {.learning_rate = 1, .merge = {.rule = MergeRule::kMedian}, .inner_steps = 10};
  const auto result = aggregator.CloseRound({0}, {}, fleet.inputs, outer);
  ASSERT_TRUE(result.ok() && result->committed) << result.status();
  const double third = 1.0 / 3.0;
  std::vector<double> weights;
  for (const ContributionReport& report : result->contributions) weights.push_back(report.weight);
  EXPECT_THAT(weights, ElementsAre(third, 0, third, third));
}

TEST(RobustMerge, EmptyRoundTakesNoStep) {
  for (const MergeSpec& merge : kRobust) {
    for (const float x : Merged(Fleet(), merge)) ASSERT_EQ(x, 0);
  }
}

TEST(RobustMerge, RefusesWhatWouldOverflowWhileItIsAddedUp) {
  const Fleet fleet = FleetOf(8, 0, {});
  Fleet large = FleetOf(0, 8, [](float) { return 2e38f; });
  for (const MergeSpec& merge : kRobust) {
    Aggregator aggregator(OneFragment());
    const OuterParameters outer = {.kind = OuterKind::kSgd, .learning_rate = 0.1, .merge = merge, .inner_steps = 10};
    EXPECT_EQ(aggregator.CloseRound({0}, {}, large.inputs, outer).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_TRUE(aggregator.CloseRound({0}, {}, fleet.inputs, outer).ok());
  }
}

}  // namespace
}  // namespace atl
