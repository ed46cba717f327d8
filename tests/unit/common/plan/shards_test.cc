// SPDX-License-Identifier: Apache-2.0
#include "common/plan/shards.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

ContributionHeader With(std::vector<LeaseCursor> cursors) {
  ContributionHeader header;
  header.cursors = std::move(cursors);
  return header;
}

JobSpec Pinned() {
  JobSpec spec;
  spec.data.pin_shards = true;
  spec.data.corpora = {{.name = "a", .samples = 100}, {.name = "b", .samples = 300}};
  return spec;
}

TEST(Shards, RangesLieSideBySideBelowEveryLimit) {
  EXPECT_EQ(ShardRange(0).begin, 0u);
  for (uint32_t c = 0; c < 63; ++c) EXPECT_EQ(ShardRange(c).end, ShardRange(c + 1).begin);
  EXPECT_LE(ShardRange(63).end, uint64_t{1} << 62);
}

TEST(Shards, TheNewestLeaseSaysWhichCorpus) {
  EXPECT_EQ(ShardOf({}), std::nullopt);
  const std::vector<LeaseCursor> one = {{LeaseId{4}, kShardPositions}};
  EXPECT_EQ(ShardOf(one), 1u);
  const std::vector<LeaseCursor> two = {{LeaseId{9}, 17}, {LeaseId{4}, kShardPositions + 5}};
  EXPECT_EQ(ShardOf(two), 0u);
}

TEST(Shards, AContributionWeighsByItsCorpus) {
  EXPECT_EQ(ShardSamples(Pinned(), With({{LeaseId{1}, 50}})), 100u);
  EXPECT_EQ(ShardSamples(Pinned(), With({{LeaseId{1}, kShardPositions + 50}})), 300u);
  EXPECT_EQ(ShardSamples(Pinned(), With({})), 200u) << "the mean, where no lease is named";
  EXPECT_EQ(ShardSamples(JobSpec(), With({{LeaseId{1}, 50}})), 0u);
}

}  // namespace
}  // namespace atl
