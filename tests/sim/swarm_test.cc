// SPDX-License-Identifier: Apache-2.0
// Two hundred lives of a deployment (swarm.h), each twice: the laws hold in all of them, and one seed is one run. Seeds
// that have found something are kept as tests of their own.
//
// ATOLL_SEEDS: how many; ATOLL_FIRST_SEED plays from that one on.
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

// Everything that a seed was played with is in the command, which tests/sim/simulate_script.py reads back.
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

// Jobs whose data ends, often amid faults: they go on until all of it is trained.
TEST(Swarm, JobsEndWithTheirData) {
  for (uint64_t seed = 1; seed <= kSeeds / 8 && !HasFailure(); ++seed) {
    SwarmOptions options = OptionsOf(seed, kHours);
    options.samples = 5000;
    ExpectLawful(seed, options);
  }
}

// As it was when it was found: without what came later.
void ExpectFound(uint64_t seed, double hours, std::optional<double> drop_syncs = {},
                 const std::vector<std::string>& rows = {}) {
  SwarmOptions options = OptionsOf(seed, hours);
  options.strangers = false;
  options.drop_syncs = drop_syncs;
  options.rows = rows;
  ExpectLawful(seed, options);
}

// Every worker had its fragment fetched whole while the coordinator was away, at the limit of steps without an update:
// none might step to its next send step, and no update came without one.
TEST(SwarmRegressions, AJobWhoseWorkersAllFetchedAnewGoesOn) { ExpectFound(5, 1); }

// What a worker gave up stays leased to it: it got no more samples, was at no send step, and the round waited for it.
TEST(SwarmRegressions, AWorkerThatGetsNoSamplesSendsOrReturnsWhatItHas) {
  ExpectFound(1018, 1);
  ExpectFound(4, 0.15, 0.2);
}

// Two versions within one period leave the job's clock ahead of the steps: a worker that lets such a send step pass may
// come to its limit before the next.
TEST(SwarmRegressions, AWorkerThatLetASendStepPassGoesOn) {
  ExpectFound(14, 0.15);
  ExpectFound(160, 0.15);
}

// A round was past its time while the job's parameters were being loaded from a slow disk: the engine was due at once,
// again and again, and did nothing.
TEST(SwarmRegressions, AJobThatIsBeingLoadedDoesNotKeepTheEngineTurning) {
  ExpectFound(1020, 1);
  ExpectFound(2004, 1);
}

// A round was past its time while a checkpoint waited for the merge of another fragment's: likewise. Found with
// strangers.
TEST(SwarmRegressions, ACheckpointThatWaitsForAMergeDoesNotKeepTheEngineTurning) {
  ExpectLawful(90117, OptionsOf(90117, 1));
}

// The disk failed while a start flushed a segment: the job stops with that sentence, and the next start takes it up.
TEST(SwarmRegressions, AJobWhoseLogCannotBeFlushedAtAStartGoesOnWithTheNext) { ExpectFound(7104, 1); }

// A coordinator died between the screens and the commit, and took the refused contribution from the round log again.
TEST(SwarmRegressions, WhatAScreenRefusedIsNotTakenAgainByTheNextStart) { ExpectFound(40086, 1); }

// A worker's third sync was missed while an update of another fragment was on its way into the outer copy; with a
// contribution being formed in its place.
TEST(SwarmRegressions, AWorkerThatGivesUpInMidUpdateStaysInItsJob) {
  ExpectFound(20143, 1);
  ExpectFound(20165, 1);
}

// A contribution that builds on one whose lease went back, offered behind that. Found with strangers.
TEST(SwarmRegressions, WhatIsOlderThanAReturnedLeaseIsVoid) { ExpectLawful(60340, OptionsOf(60340, 1)); }

// Two committed rounds were recomputed by a start, and the update of the older one was served by nobody before it was
// written, which a commit would have done. Workers fetched their fragment whole, again and again, for its sake.
TEST(SwarmRegressions, UpdatesThatAStartRecomputedAreServedBeforeTheyAreWritten) {
  ExpectFound(1005, 1, {}, {"F1", "F16"});
}

// A worker came back while its contribution of before was accepted in an open round. Found with strangers.
TEST(SwarmRegressions, AWorkerDoesNotTakeAnothersForItsOwn) { ExpectLawful(150974, OptionsOf(150974, 1)); }

// A coordinator was killed between writing an update and flushing it, and a power cut took it from behind a snapshot.
// Found with strangers; it draws other things by now, and UnflushedUpdate.* meets that.
TEST(SwarmRegressions, AnUpdateThatAStartFindsIsFlushed) { ExpectLawful(80309, OptionsOf(80309, 1)); }

// Two running jobs had one each of the two workers that each of them needed. Found with strangers.
TEST(SwarmRegressions, OfJobsThatLackEachOthersWorkersOneGoesOn) { ExpectLawful(300088, OptionsOf(300088, 1)); }

}  // namespace
}  // namespace atl
