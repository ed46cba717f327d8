// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/coordinator/core/world.h"

namespace atl {
namespace {

// More seeds in the long tests.
uint64_t Seeds() {
  const char* value = std::getenv("ATOLL_SEEDS");
  return value == nullptr ? 200 : std::strtoull(value, nullptr, 10);
}

const uint64_t kSeeds = Seeds();
constexpr int kSteps = 800;

TEST(RandomCore, LawsHoldAndARestartFindsWhatWas) {
  uint64_t rounds = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    for (int step = 0; step < kSteps; ++step) {
      world.Chaos();
      if (step % 10 != 0) continue;
      const std::string difference = world.RecoveryDifference();
      ASSERT_EQ(difference, "") << "seed " << seed << " step " << step;
    }
    rounds += world.rounds();
  }
  EXPECT_GT(rounds, kSeeds * 2) << "the random workers hardly commit anything";
}

// A disconnected worker is removed from a job, which sends no notice, and then assigned to another
// job. The assignment used to wait for the next event.
TEST(RandomCore, GoesOnFromAChangeThatNobodyIsToldOf) {
  World world(9707);
  for (int step = 0; step < kSteps; ++step) world.Chaos();
}

TEST(RandomCore, EveryJobEndsOnceFaultsStop) {
  uint64_t succeeded = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    for (int step = 0; step < 200; ++step) world.Chaos();
    const auto open = world.Calm(400);
    ASSERT_TRUE(open.empty()) << "seed " << seed << ": " << open.front();
    succeeded += world.Succeeded();
  }
  EXPECT_GT(succeeded, kSeeds / 2) << "most jobs end some other way";
}

}  // namespace
}  // namespace atl
