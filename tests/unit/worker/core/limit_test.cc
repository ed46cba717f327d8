// SPDX-License-Identifier: Apache-2.0
// A worker at the limit of steps without an update.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// Trains without a coordinator, to the limit of steps without an update.
void TrainToTheLimit(World& w) {
  w.Start();
  w.Steps(1);
  w.Give(StreamDown{"gone"});
  for (int i = 0; i < 40; ++i) {
    w.Boundary();
    w.Wait(Seconds(1));
  }
  ASSERT_EQ(w.steps_taken, 8u) << "two periods of four";
}

// The rest of a lease is less than a batch, but more than half of the last step's samples.
TEST(WorkerAtTheLimit, AsksForTheSamplesOfItsLastStep) {
  JobSpec spec = SmallSpec();
  spec.batch.sequences_per_step = 4;
  spec.stop.inner_steps = 2;
  World w(spec);
  w.lease_samples = 7;
  w.Start();
  w.Steps(2);
  EXPECT_TRUE(w.Did("wish 2 for 4"));
  EXPECT_EQ(w.steps_taken, 2u);
}

// No other worker trains: only its own next contribution can give an update.
TEST(WorkerAtTheLimit, GoesOnFromAFragmentThatWasFetchedAtTheLimit) {
  World w;
  ASSERT_NO_FATAL_FAILURE(TrainToTheLimit(w));
  w.fetch_updates = false;
  w.Connect(true, 2);
  w.Assign({Version{2}}, 8);
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
  ASSERT_EQ(w.core().fragments()[0].applied.value, 2u);
  w.uploads.clear();
  w.Steps(4);
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 12u);
  EXPECT_EQ(w.uploads.count(0), 1u);
}

TEST(WorkerAtTheLimit, GoesOnWithNewLeasesAfterARevocationAtTheLimit) {
  World w;
  ASSERT_NO_FATAL_FAILURE(TrainToTheLimit(w));
  w.Connect(true);
  w.Assign({Version{0}}, 8);
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  w.Steps(4);
  EXPECT_EQ(w.steps_taken, 12u);
}

// Away from a send step and without samples no update can arrive: other workers may wait for this
// one's contribution.
TEST(WorkerAtTheLimit, SendsWhatItHasWhenItGetsNoSamples) {
  World w;
  w.grant_leases = false;
  w.Start();
  w.Boundary();
  w.Hear(LeaseGranted{JobId{"tiny"}, 1, LeaseId{9}, {0, 4}});
  w.Steps(1);
  w.Boundary();
  EXPECT_FALSE(w.Did("upload"));
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "4 leased samples are in no committed contribution yet"});
  w.Steps(1);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v0 steps 2"));
}

// The worker has contributed to a round of one fragment. Another worker delays that round until
// this worker's contribution to the other fragment arrives: neither can take a step until then
// (seed 1020 of the simulation).
TEST(WorkerAtTheLimit, SendsAnotherFragmentThanTheOneItWaitsFor) {
  World w(SmallSpec(), 2);
  w.grant_leases = false;
  w.Start();
  w.Boundary();
  w.Hear(LeaseGranted{JobId{"tiny"}, 1, LeaseId{9}, {0, 6}});
  w.Steps(3);
  w.Boundary();
  ASSERT_EQ(w.uploads.size(), 1u);
  const uint32_t sent = w.uploads.begin()->first;
  w.Accept(sent);
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "6 leased samples are in no committed contribution yet"});
  w.Boundary();
  EXPECT_EQ(w.uploads.size(), 1u) << "the round may close yet";
  for (int i = 0; i < 10; ++i) {
    w.Wait(Seconds(10));
    w.Boundary();
  }
  EXPECT_EQ(w.steps_taken, 3u);
  EXPECT_EQ(w.uploads.count(1 - sent), 1u);
}

// A repeated request may be denied, and granted when its repetition arrives. The lease belongs to
// this worker, and would stay unused to the end of the job if the worker ignored it.
TEST(WorkerAtTheLimit, LeaseAfterADenialIsTakenOnce) {
  World w;
  w.grant_leases = false;
  w.Start();
  w.Boundary();
  w.Hear(LeaseGranted{JobId{"tiny"}, 1, LeaseId{9}, {0, 4}});
  w.Steps(1);
  w.Boundary();
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "4 leased samples are in no committed contribution yet"});
  const uint64_t before = w.core().samples_held();
  w.Hear(LeaseGranted{JobId{"tiny"}, 2, LeaseId{10}, {4, 12}});
  EXPECT_EQ(w.core().samples_held(), before + 8);
  for (const uint64_t lease : {9u, 10u}) w.Hear(LeaseGranted{JobId{"tiny"}, lease - 8, LeaseId{lease}, {0, 4}});
  EXPECT_EQ(w.core().samples_held(), before + 8) << "a lease that is said again";
}

// The fragment adopts the outer copy once the update in progress is applied. The old drift is neither merged nor
// contributed.
TEST(WorkerGivesUp, WhileAnUpdateIsBeingApplied) {
  World w;
  w.Start();
  w.Steps(1);
  w.form_and_apply = false;
  w.Publish(0, 1, {"w2"});
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1"));
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  w.Give(UpdateApplied{{FragmentIndex{0}, Version{1}}, true});
  ASSERT_TRUE(w.Did("adopt 0"));
  EXPECT_FALSE(w.Did("resolve 0"));
  EXPECT_EQ(w.core().fragments()[0].applied, Version{1});
  w.form_and_apply = true;
  w.Publish(0, 2, {"w2"});
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 missed")) << "the next one is merged as ever";
}

// A deviating replica has no valid outer copy to adopt: the worker fetches the whole fragment and stays in its job.
TEST(WorkerGivesUp, WhileAnUpdateIsBeingAppliedThatMakesAnotherHash) {
  World w(SmallSpec(), 2);
  w.Start();
  w.Steps(1);
  w.form_and_apply = false;
  w.Publish(1, 1, {"w2"});
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 1 v1"));
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  EXPECT_TRUE(w.Did("adopt 0"));
  w.Give(UpdateApplied{{FragmentIndex{1}, Version{1}}, false});
  EXPECT_EQ(w.Count("adopt 1"), 2) << "at the start, and when it is fetched";
  EXPECT_EQ(w.Count("fetch fragment 1"), 2);
}

// A contribution that the update being applied includes is not reported again.
TEST(WorkerGivesUp, NothingOfWhatAnUpdateCountsThatIsBeingApplied) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.form_and_apply = false;
  w.Publish(0, 1, {"w1"}, 4);
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1 contributor"));
  w.Hear(ContributionRefused{JobId{"tiny"}, {FragmentIndex{0}, Version{0}}, w.uploads.at(0).header.digest, "late"});
  EXPECT_FALSE(w.Did("note contribution refused"));
  w.Give(UpdateApplied{{FragmentIndex{0}, Version{1}}, true});
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
}

TEST(WorkerGivesUp, WhileAContributionIsBeingFormed) {
  World w;
  w.Start();
  w.form_and_apply = false;
  w.Steps(4);
  w.Boundary();
  ASSERT_TRUE(w.Did("form 0 v0"));
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  EXPECT_TRUE(w.Did("drop contribution 0"));
  w.Give(ContributionFormed{{FragmentIndex{0}, Version{0}}, Digest{1, 1}, 16});
  EXPECT_FALSE(w.Did("upload 0"));
  w.form_and_apply = true;
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v0 steps 4")) << "what is trained from the outer copy on";
}

// While the coordinator is away workers train at their own speeds; the job's clock brings them
// together again.
TEST(WorkerAfterAnOutage, MissedSendStepsResetTheClockToTheJobs) {
  World w(SmallSpec(), 2);
  ASSERT_NO_FATAL_FAILURE(TrainToTheLimit(w));
  ASSERT_EQ(w.core().clock_step(), 8u);
  const int formed = w.Count("form");
  w.Connect(true, 2);
  const uint64_t sent = std::max(w.uploads.at(0).header.send_step, w.uploads.at(1).header.send_step);
  w.Assign({Version{0}, Version{0}}, 1);
  EXPECT_TRUE(w.Did("clock set back"));
  EXPECT_EQ(w.core().clock_step(), 1u);
  // The sends made meanwhile count for their steps, and merges overwrite nothing.
  for (uint32_t p = 0; p < 2; ++p) {
    w.Accept(p);
    w.Publish(p, 1, {"w1", "w2"}, 1);
  }
  w.Steps(sent - 1);
  EXPECT_EQ(w.core().clock_step(), sent);
  EXPECT_EQ(w.Count("form"), formed);
  EXPECT_FALSE(w.Did("update arrived late"));
  w.Steps(2);
  w.Boundary();
  EXPECT_EQ(w.Count("form"), formed + 1) << "one period on, fragment 0";
  w.Accept(0);
  w.Publish(0, 2, {"w1", "w2"}, sent + 2);
  w.Steps(2);
  w.Boundary();
  EXPECT_EQ(w.Count("form"), formed + 2) << "then fragment 1";
}

// Fragment 1 is sent at step 2 and merged at 8, fragment 0 at 6 and 12. An evaluation brings the
// outer copy of fragment 0 to version 1 at step 7. The next send step of fragment 1, 10, passes
// while the coordinator is away.
TEST(WorkerAfterAnOutage, UpdateAppliedForAnEvaluationIsMergedAsApplied) {
  JobSpec spec = SmallSpec();
  spec.sync.inner_steps = 8;
  spec.sync.overlap_steps = 6;
  World w(spec, 2);
  w.Start();
  w.Steps(7);
  ASSERT_TRUE(w.Did("upload 1 v0 steps 2"));
  ASSERT_TRUE(w.Did("upload 0 v0 steps 6"));
  w.Accept(0);
  w.Accept(1);
  w.Publish(0, 1, {"w1", "w2"}, 6);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{1}, Version{0}}, 16});
  w.Boundary();
  w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1 contributor"));
  ASSERT_TRUE(w.Did("evaluate 1"));
  ASSERT_FALSE(w.Did("resolve 0"));
  w.Give(StreamDown{"gone"});
  w.Steps(1);
  w.Boundary();
  w.Wait(Seconds(3));  // for fragment 1, at step 8
  w.Steps(2);
  w.Boundary();
  ASSERT_EQ(w.steps_taken, 11u) << "two steps and what the boundary behind them takes";
  w.Connect(true, 2, 5, {{{FragmentIndex{1}, Version{0}}, ContributionFate::kAccepted}});
  w.Assign({Version{1}, Version{0}}, 8);
  ASSERT_TRUE(w.Did("clock set back"));
  w.Boundary();
  EXPECT_FALSE(w.Did("resolve 0")) << "at its own step";
  w.Publish(1, 1, {"w1", "w2"}, 10);
  w.Steps(1);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_FALSE(w.Did("resolve 0 contributor late"));
  EXPECT_TRUE(w.Did("resolve 1 ahead"));
}

TEST(WorkerAfterAnOutage, WithoutAMissedSendStepTheClockStays) {
  World w(SmallSpec(), 2);
  w.Start();
  w.Steps(1);
  w.Give(StreamDown{"gone"});
  w.Steps(1);
  w.Connect(true, 2);
  w.Assign({Version{0}, Version{0}}, 0);
  EXPECT_FALSE(w.Did("clock set back"));
  EXPECT_EQ(w.core().clock_step(), 2u);
}

}  // namespace
}  // namespace atl::worker
