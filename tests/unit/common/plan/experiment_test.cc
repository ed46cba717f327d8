// SPDX-License-Identifier: Apache-2.0
#include "common/plan/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace atl {
namespace {

JobSpec Dropping(double probability, uint64_t seed = 1) {
  JobSpec spec;
  spec.data.seed = seed;
  spec.experiment.drop_sync_probability = probability;
  return spec;
}

FragmentVersion At(uint32_t fragment, uint64_t version) { return {FragmentIndex{fragment}, Version{version}}; }

std::vector<bool> Draws(const JobSpec& spec, const std::string& worker, uint32_t fragment) {
  std::vector<bool> drawn;
  drawn.reserve(2000);
  for (uint64_t version = 0; version < 2000; ++version) {
    drawn.push_back(DropsSync(spec, WorkerId{worker}, At(fragment, version)));
  }
  return drawn;
}

double ShareOf(const std::vector<bool>& drawn) {
  return static_cast<double>(std::count(drawn.begin(), drawn.end(), true)) / static_cast<double>(drawn.size());
}

// The example of docs/formats/data-order.md.
TEST(DropsSync, IsAsDocumented) {
  std::vector<bool> drawn = Draws(Dropping(0.5, 42), "a", 0);
  drawn.resize(8);
  EXPECT_EQ(drawn, (std::vector<bool>{false, true, true, true, true, true, true, false}));
}

TEST(DropsSync, DropsTheShareThatIsAskedFor) {
  EXPECT_EQ(ShareOf(Draws(Dropping(0), "a", 0)), 0);
  for (const double p : {0.1, 0.3, 0.5, 0.9}) EXPECT_NEAR(ShareOf(Draws(Dropping(p), "a", 0)), p, 0.04) << p;
}

TEST(DropsSync, IsAFunctionOfSeedWorkerFragmentAndVersion) {
  const std::vector<bool> drawn = Draws(Dropping(0.5), "a", 0);
  EXPECT_EQ(drawn, Draws(Dropping(0.5), "a", 0));
  EXPECT_NE(drawn, Draws(Dropping(0.5, 2), "a", 0));
  EXPECT_NE(drawn, Draws(Dropping(0.5), "b", 0));
  EXPECT_NE(drawn, Draws(Dropping(0.5), "a", 1));
}

// Known bits: workers and coordinators of all versions must draw the same.
TEST(DropsSync, DrawsTheseBits) {
  std::string drawn;
  for (uint64_t v = 0; v < 32; ++v) drawn += DropsSync(Dropping(0.5, 7), WorkerId{"w1"}, At(2, v)) ? 'x' : '.';
  EXPECT_EQ(drawn, "xxxx......xx..xx.xx.x.x.x.xx...x");
}

TEST(DropsSync, HigherShareDropsASuperset) {
  const std::vector<bool> low = Draws(Dropping(0.1), "a", 0), high = Draws(Dropping(0.3), "a", 0);
  for (size_t i = 0; i < low.size(); ++i) EXPECT_TRUE(!low[i] || high[i]) << i;
}

// The sizes at steps 0, 100, ..., 700 of 800.
std::vector<uint32_t> Sizes(PoolSchedule schedule, uint32_t planned) {
  JobSpec spec;
  spec.experiment.pool = schedule;
  spec.workers.planned = planned;
  spec.workers.max = 12;
  spec.stop.inner_steps = 800;
  std::vector<uint32_t> sizes;
  sizes.reserve(8);
  for (uint64_t step = 0; step < 800; step += 100) sizes.push_back(PoolSize(spec, step));
  EXPECT_EQ(PoolSize(spec, 800), PoolSize(spec, 799));
  EXPECT_EQ(PoolSize(spec, UINT64_MAX), PoolSize(spec, 799));
  return sizes;
}

using List = std::vector<uint32_t>;

// The six schedules of the paper with k = 8 (constant is given by workers.max, once 1 and once 8).
TEST(PoolSize, FollowsTheSchedulesOfThePaper) {
  EXPECT_EQ(Sizes(PoolSchedule::kConstant, 8), List(8, 12));
  EXPECT_EQ(Sizes(PoolSchedule::kDoubling, 8), (List{4, 4, 4, 4, 8, 8, 8, 8}));
  EXPECT_EQ(Sizes(PoolSchedule::kHalving, 8), (List{8, 8, 8, 8, 4, 4, 4, 4}));
  EXPECT_EQ(Sizes(PoolSchedule::kRampUp, 8), (List{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Sizes(PoolSchedule::kRampDown, 8), (List{8, 7, 6, 5, 4, 3, 2, 1}));
}

TEST(PoolSize, RoundsHalvesUpAndEndsRampsAtOne) {
  EXPECT_EQ(Sizes(PoolSchedule::kDoubling, 3), (List{2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(Sizes(PoolSchedule::kHalving, 3), (List{3, 3, 3, 3, 2, 2, 2, 2}));
  EXPECT_EQ(Sizes(PoolSchedule::kRampUp, 2), (List{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(Sizes(PoolSchedule::kRampDown, 4), (List{4, 4, 3, 3, 2, 2, 1, 1}));
}

}  // namespace
}  // namespace atl
