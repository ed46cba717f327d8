// SPDX-License-Identifier: Apache-2.0
// Faults of docs/results/faults.md, alone and in pairs within seconds of each other, repeated in
// one life of a deployment (swarm.h). The laws hold, rounds continue, and every job ends after the
// repair.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/swarm.h"

namespace atl {
namespace {

#ifdef ATOLL_SANITIZED
constexpr uint64_t kSeeds = 1;  // each takes many times as long
#else
constexpr uint64_t kSeeds = 4;
#endif
constexpr double kHours = 0.2;

using Rows = std::vector<std::string>;

std::vector<Rows> AloneAndInPairs() {
  const Rows rows = SimulatedRows();
  std::vector<Rows> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    all.push_back({rows[i]});
    for (size_t k = i + 1; k < rows.size(); ++k) all.push_back({rows[i], rows[k]});
  }
  return all;
}

class FaultPairs : public testing::TestWithParam<Rows> {};

TEST_P(FaultPairs, TheLawsHoldAndRoundsGoOn) {
  for (uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) {
    SwarmOptions options{.sqlite = seed % 4 == 0, .audit = true, .hours = kHours, .strangers = false};
    options.rows = GetParam();
    const SwarmResult played = PlaySwarm(seed, options);
    const std::string again = absl::StrCat("play it alone: ", ReplayCommand(seed, options));
    EXPECT_EQ(played.broken, "") << again;
    EXPECT_GT(played.counts.contributions, 0u) << again;
    for (const std::string& row : GetParam())
      EXPECT_TRUE(played.of_rows.contains(row)) << row << " did not happen; " << again;
  }
}

std::string NameOf(const testing::TestParamInfo<Rows>& rows) { return absl::StrJoin(rows.param, "With"); }

INSTANTIATE_TEST_SUITE_P(Rows, FaultPairs, testing::ValuesIn(AloneAndInPairs()), NameOf);

}  // namespace
}  // namespace atl
