// SPDX-License-Identifier: Apache-2.0
// Lives of a deployment (swarm.h), each played twice: the laws hold, and equal seeds give equal
// runs. Seeds that found a fault are kept as separate tests.
//
// ATOLL_SEEDS: the number of seeds. ATOLL_FIRST_SEED: the first seed.
#include "tests/sim/swarm.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace atl {
namespace {

constexpr uint64_t kParts = 4;
#ifdef ATOLL_SANITIZED
constexpr uint64_t kSeeds = 16;  // each takes many times as long
#else
constexpr uint64_t kSeeds = 200;
#endif
constexpr double kHours = 0.15;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

void ExpectLawful(uint64_t seed, const SwarmOptions& options) {
  const SwarmResult first = PlaySwarm(seed, options);
  EXPECT_EQ(first.broken, "") << "play it alone: " << ReplayCommand(seed, options);
  EXPECT_GT(first.counts.looks, 0u);
  EXPECT_EQ(PlaySwarm(seed, options).trace, first.trace) << "seed " << seed << " is not one run";
}

class SwarmSeeds : public testing::TestWithParam<uint64_t> {};

TEST_P(SwarmSeeds, TheLawsHold) {
  const uint64_t seeds = FromEnvironment("ATOLL_SEEDS", kSeeds), first = FromEnvironment("ATOLL_FIRST_SEED", 1);
  for (uint64_t seed = first + GetParam(); seed < first + seeds && !HasFailure(); seed += kParts) {
    ExpectLawful(seed, OptionsOf(seed, kHours));
  }
}

INSTANTIATE_TEST_SUITE_P(Quarters, SwarmSeeds, testing::Range<uint64_t>(0, kParts));

// The command holds every option of the seed; tests/sim/simulate_script.py parses it.
TEST(Swarm, NamesTheOneCommandThatPlaysASeedAgain) {
  SwarmOptions options = OptionsOf(7, 0.15);
  EXPECT_EQ(ReplayCommand(7, options), "scripts/simulate --only --seed 7 --simulated 0.15");
  options.strangers = false;
  options.drop_syncs = 0.2;
  EXPECT_EQ(ReplayCommand(7, options),
            "scripts/simulate --only --seed 7 --simulated 0.15 --no-strangers --drop-syncs 0.2");
  options.samples = 900;
  EXPECT_EQ(ReplayCommand(7, options),
            "scripts/simulate --only --seed 7 --simulated 0.15 --no-strangers --drop-syncs 0.2 --samples 900");
  options.rows = {"F1", "F7"};
  EXPECT_EQ(ReplayCommand(7, options),
            "scripts/simulate --only --seed 7 --simulated 0.15 --no-strangers --drop-syncs 0.2 --samples 900 "
            "--faults F1,F7");
}

TEST(Swarm, JobsEndWithTheirData) {
  for (uint64_t seed = 1; seed <= kSeeds / 8 && !HasFailure(); ++seed) {
    SwarmOptions options = OptionsOf(seed, kHours);
    options.samples = 5000;
    ExpectLawful(seed, options);
  }
}

// Plays the seed with the options of the time when it found a fault: without options added later.
void ExpectFound(uint64_t seed, double hours, std::optional<double> drop_syncs = {},
                 const std::vector<std::string>& rows = {}) {
  SwarmOptions options = OptionsOf(seed, hours);
  options.strangers = false;
  options.drop_syncs = drop_syncs;
  options.rows = rows;
  ExpectLawful(seed, options);
}

// Every worker fetched its fragment whole while the coordinator was away, at the limit of unsynced
// steps. No worker was allowed to step to its next send step, and no update arrived without a send.
TEST(SwarmRegressions, AJobWhoseWorkersAllFetchedAnewGoesOn) { ExpectFound(5, 1); }

// Samples that a worker abandoned stay leased to it. The worker got no more samples, was at no send
// step, and the round waited for it.
TEST(SwarmRegressions, AWorkerThatGetsNoSamplesSendsOrReturnsWhatItHas) {
  ExpectFound(1018, 1);
  ExpectFound(4, 0.15, 0.2);
}

// Two versions within one period set the job's clock ahead of the steps. A worker that skips such a
// send step may reach its limit before the next.
TEST(SwarmRegressions, AWorkerThatLetASendStepPassGoesOn) {
  ExpectFound(14, 0.15);
  ExpectFound(160, 0.15);
}

// A round passed its deadline while the job's parameters were loaded from a slow disk: the engine
// was due at once, again and again, and did nothing.
TEST(SwarmRegressions, AJobThatIsBeingLoadedDoesNotKeepTheEngineTurning) {
  ExpectFound(1020, 1);
  ExpectFound(2004, 1);
}

// The same for a round past its deadline while a checkpoint waited for another fragment's merge.
// Found with strangers.
TEST(SwarmRegressions, ACheckpointThatWaitsForAMergeDoesNotKeepTheEngineTurning) {
  ExpectLawful(90117, OptionsOf(90117, 1));
}

// The disk failed while a start flushed a segment: the job stops with that error, and the next
// start resumes it.
TEST(SwarmRegressions, AJobWhoseLogCannotBeFlushedAtAStartGoesOnWithTheNext) { ExpectFound(7104, 1); }

// A coordinator died between the screens and the commit; the next start accepted the refused
// contribution from the round log again.
TEST(SwarmRegressions, WhatAScreenRefusedIsNotTakenAgainByTheNextStart) { ExpectFound(40086, 1); }

// A worker missed its third sync while an update of another fragment was being applied to the outer copy, or while a
// contribution was being formed.
TEST(SwarmRegressions, AWorkerThatGivesUpInMidUpdateStaysInItsJob) {
  ExpectFound(20143, 1);
  ExpectFound(20165, 1);
}

// The lease of a contribution was returned; a later contribution that builds on it is offered after
// the return. Found with strangers.
TEST(SwarmRegressions, WhatIsOlderThanAReturnedLeaseIsVoid) { ExpectLawful(60340, OptionsOf(60340, 1)); }

// A start recomputed two committed rounds. The update of the older round was not served before it
// was written, and only a commit would have written it. So workers fetched their fragment whole
// again and again.
TEST(SwarmRegressions, UpdatesThatAStartRecomputedAreServedBeforeTheyAreWritten) {
  ExpectFound(1005, 1, {}, {"F1", "F16"});
}

// A worker returned while its earlier contribution was accepted in an open round. Found with
// strangers.
TEST(SwarmRegressions, AWorkerDoesNotTakeAnothersForItsOwn) { ExpectLawful(150974, OptionsOf(150974, 1)); }

// A coordinator was killed between writing an update and flushing it; a later snapshot was written,
// and a power cut removed the update. Found with strangers. By now the seed draws other events;
// UnflushedUpdate.* covers the fault.
TEST(SwarmRegressions, AnUpdateThatAStartFindsIsFlushed) { ExpectLawful(80309, OptionsOf(80309, 1)); }

// Each of two running jobs needed two workers and had one of them. Found with strangers.
TEST(SwarmRegressions, OfJobsThatLackEachOthersWorkersOneGoesOn) { ExpectLawful(300088, OptionsOf(300088, 1)); }

}  // namespace
}  // namespace atl
