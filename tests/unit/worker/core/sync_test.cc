// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// A period, its contribution accepted.
void Contribute(World& w, uint64_t steps) {
  w.Steps(steps);
  w.Boundary();
  w.Accept(0);
}

TEST(WorkerSync, ContributorMergesAtTheApplyStep) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 4u) << "no overlap: it waits";
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
  w.Publish(0, 1, {"w1", "w2"}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_FALSE(w.Did("late"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v1 steps 4"));
}

TEST(WorkerSync, AfterTheDeadlineItTrainsOnAndTheLateUpdateIsNotMerged) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.Boundary();
  EXPECT_LT(w.core().NextWake(), kNever);
  w.Wait(Seconds(21));
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 5u);
  EXPECT_TRUE(
      w.Did("note update overdue: waited 21 s for version 1 of fragment 0: its round is not "
            "published; training continues"));
  w.Publish(0, 1, {"w1"}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor late"));
  EXPECT_GE(w.core().fragments()[0].steps_behind, 1u);
}

TEST(WorkerSync, WaitCutShortByAnOutageReportsItsLength) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Give(StreamDown{"gone"});
  w.Boundary();
  w.Wait(Seconds(2));
  w.Steps(1);
  EXPECT_TRUE(
      w.Did("note update overdue: waited 2 s for version 1 of fragment 0, because the coordinator is unreachable; "
            "training continues"));
}

TEST(WorkerSync, LateOnceIsSentAgainAtOnceLateTwiceWaitsForTheNextOffset) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Publish(0, 1, {"w2"}, 4);
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("cancel upload 0"));
  EXPECT_TRUE(w.Did("resolve 0 missed"));
  EXPECT_EQ(w.core().fragments()[0].missed, 1u);
  ASSERT_TRUE(w.Did("upload 0 v1 steps 4")) << "the same drift against the new version";
  w.Publish(0, 2, {"w2"}, 8);
  w.Boundary();
  w.Boundary();
  const uint64_t before = w.steps_taken;
  EXPECT_FALSE(w.Did("upload 0 v2"));
  w.Steps(8 - before);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v2 steps 8"));
}

// Two versions within one period (a round of one worker, a pause) set the job's clock ahead of the steps. A merge
// that waits for other workers, which also send now, must not overwrite training.
TEST(WorkerSync, VersionAlreadyAtTheSendStepDefersTheSend) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.Publish(0, 1, {"w1", "w2"}, 8);
  w.Boundary();
  ASSERT_TRUE(w.Did("resolve 0 contributor"));
  w.Steps(4);
  w.Boundary();
  EXPECT_FALSE(w.Did("upload 0 v1"));
  EXPECT_TRUE(w.Did("note send skipped"));
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v1 steps 8"));
  w.Accept(0);
  w.Publish(0, 2, {"w1", "w2"}, 12);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v2 contributor"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v2 steps 4"));
}

TEST(WorkerSync, ASendStepIsNotSkippedTwiceRunning) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.Publish(0, 1, {"w1", "w2"}, 11);
  w.Boundary();
  w.Steps(4);
  w.Boundary();
  EXPECT_FALSE(w.Did("upload 0 v1"));
  w.Publish(0, 2, {"w2"}, 12);
  w.Boundary();
  w.Steps(12 - w.steps_taken);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v2 steps 8"));
}

// The others have sent for version 1 at this step. Their next contributions, and so the update, come with their next
// send step, or sooner if all do this.
void SendAhead(World& w) {
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Publish(0, 1, {"w2"}, 4);
  w.Boundary();
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v1 steps 4"));
  w.Accept(0);
}

// The merge keeps the training done until then.
TEST(WorkerSync, EarlySendIsMergedOnArrivalWithoutOverwriting) {
  World w;
  ASSERT_NO_FATAL_FAILURE(SendAhead(w));
  w.Steps(7 - w.steps_taken);
  EXPECT_EQ(w.steps_taken, 7u) << "nothing to wait for yet";
  w.Publish(0, 2, {"w1", "w2"}, 8);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v2 ahead"));
  EXPECT_TRUE(w.Did("resolve 0 ahead"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 3u);
  w.Steps(12 - w.steps_taken);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v2 steps 8")) << "the send step at which the version stands is passed once";
}

TEST(WorkerSync, SendAfterAnOutageIsEarlyToo) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 4"));
  w.Give(StreamDown{"gone"});
  w.Steps(2);
  w.Give(StreamUp{});
  const Hello hello = std::get<Hello>(w.said.back());
  ASSERT_EQ(hello.held.size(), 1u);
  w.Hear(Welcome{BootNumber{1},
                 hello.incarnation,
                 true,
                 Seconds(2),
                 Seconds(20),
                 {{hello.held[0].target, ContributionFate::kRefused}}});
  w.Assign({Version{1}}, 4);  // meanwhile the others committed version 1 at step 4
  w.Boundary();
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v1 steps"));
  w.Accept(0);
  w.Publish(0, 2, {"w1", "w2"}, 8);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 ahead"));
}

TEST(WorkerSync, EarlySendPastTheNextSendStepIsNotRepeated) {
  World w;
  ASSERT_NO_FATAL_FAILURE(SendAhead(w));
  w.Steps(4);
  w.Boundary();
  ASSERT_EQ(w.steps_taken, 8u);
  w.Publish(0, 2, {"w1", "w2"}, 8);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 ahead"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 4u) << "they are trained, and go with the next send";
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v2 steps 8"));
}

// No step can follow before the samples of the contribution are accounted for.
TEST(WorkerSync, WithoutSamplesAnUpdateDoesNotWaitForItsStep) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 3;
  World w(spec);
  w.lease_samples = 4;
  w.Start();
  w.Boundary();
  w.grant_leases = false;
  w.Steps(1);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 1"));
  w.Accept(0);
  ASSERT_TRUE(w.Did("wish 2"));
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "4 leased samples are in no committed contribution yet"});
  w.Publish(0, 1, {"w1"}, 1);
  w.Steps(1);
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 2u) << "its apply step is 4";
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
}

// The commit makes room for leases: the worker asks again without waiting for its retry.
TEST(WorkerSync, ADeniedLeaseIsAskedForAgainOnceAnUpdateIsApplied) {
  World w;
  w.lease_samples = 8;
  w.Start();
  w.Boundary();
  w.grant_leases = false;
  w.Steps(4);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 4"));
  w.Accept(0);
  ASSERT_TRUE(w.Did("wish 2"));
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "8 leased samples are in no committed contribution yet"});
  w.Boundary();
  EXPECT_FALSE(w.Did("wish 3"));
  w.Publish(0, 1, {"w1"}, 4);
  for (int i = 0; i < 3; ++i) w.Boundary();
  ASSERT_TRUE(w.Did("apply 0 v1 contributor"));
  EXPECT_TRUE(w.Did("wish 3"));
}

TEST(WorkerSync, RefusedKeepsTheDriftForTheNextVersion) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("form 0 v0 at rest")) << "without an overlap the next step waits";
  const ContributionHeader h = w.uploads.at(0).header;
  w.Give(UploadEnded{h.target, h.digest, UploadResult::kRefused, "another digest holds this key"});
  EXPECT_TRUE(w.Did("drop contribution 0"));
  w.Steps(1);
  EXPECT_EQ(w.Count("form 0 v0"), 1) << "not tried twice at one version";
  w.Publish(0, 1, {"w2"}, 4);
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v1 steps 5"));
}

TEST(WorkerSync, MissedTooOftenTakesTheOuterCopyAndReturnsLeases) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  for (uint64_t v = 1; v <= 3; ++v) {
    w.Publish(0, v, {"w2"});
    for (int i = 0; i < 8 && w.core().fragments()[0].applied.value < v; ++i) w.Boundary();
    w.Steps(4);
    w.Boundary();
  }
  EXPECT_TRUE(w.Did("note drift discarded"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_EQ(w.core().fragments()[0].missed, 0u);
}

TEST(WorkerSync, ASendWhileOneIsUnresolvedIsSkipped) {
  JobSpec spec = SmallSpec();
  spec.sync.deadline = Milliseconds(1);
  World w(spec);
  w.Start();
  Contribute(w, 4);
  for (int i = 0; i < 20; ++i) {
    w.Wait(Milliseconds(5));
    w.Boundary();
  }
  EXPECT_EQ(w.steps_taken, 8u);
  EXPECT_TRUE(w.Did("note send skipped"));
  EXPECT_EQ(w.Count("form 0"), 1);
}

TEST(WorkerSync, ALeaseContributedToItsEndIsForgotten) {
  World w;
  w.lease_samples = 8;
  w.Start();
  Contribute(w, 4);
  w.Publish(0, 1, {"w1"}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("forget lease 1"));
}

TEST(WorkerSync, ADeviantFetchesItsFragmentWhole) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.Publish(0, 1, {"w1"}, 4);
  w.hash_matches = false;
  w.lines.clear();
  w.Assign({Version{1}}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("applied 0 v1 deviant"));
  EXPECT_TRUE(w.Did("fetch fragment 0"));
  EXPECT_TRUE(w.Did("install 0 v1"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
}

TEST(WorkerSync, AnUpdateThatIsNotKeptAnyMoreBringsTheWholeFragment) {
  World w;
  w.Start();
  w.fetch_updates = false;
  w.Assign({Version{2}}, 8);
  w.lines.clear();
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
  EXPECT_TRUE(w.Did("fetch fragment 0"));
  EXPECT_EQ(w.core().fragments()[0].applied.value, 2u);
}

TEST(WorkerSync, FragmentsAreSentAtTheirOwnOffsets) {
  World w(SmallSpec(), 2);
  w.Start();
  w.Steps(2);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v0 steps 2"));
  EXPECT_FALSE(w.Did("upload 1"));
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 2);
  w.Steps(2);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 1 v0 steps 4"));
}

TEST(WorkerSync, EvaluatesExactlyTheAssignedVersions) {
  World w;
  w.Start();
  Contribute(w, 4);
  w.fetch_updates = false;
  w.Publish(0, 1, {"w1"}, 4);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{1}}, 10});
  w.Boundary();
  EXPECT_FALSE(w.Did("evaluate 3")) << "version 1 is not here yet";
  w.Give(UpdateFetched{{FragmentIndex{0}, Version{1}}});
  const uint64_t before = w.steps_taken;
  for (int i = 0; i < 3 && !w.Did("evaluation done"); ++i) w.Boundary();
  EXPECT_TRUE(w.Did("evaluation done"));
  EXPECT_EQ(w.steps_taken, before) << "before the next step";
}

TEST(WorkerSync, AnEvaluationOfOlderVersionsIsDeclined) {
  World w;
  w.Connect();
  w.Assign({Version{2}}, 8);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{1}}, 10});
  w.Steps(1);
  EXPECT_FALSE(w.Did("evaluate 3"));
  EXPECT_TRUE(w.Did("note evaluation not possible"));
  EXPECT_TRUE(w.Did("evaluation done: this worker's outer copies are already newer")) << "another one may have them";
}

TEST(WorkerSync, ResultsOfAnEvaluationSurviveABreak) {
  World w;
  w.Start();
  w.Give(StreamDown{"gone"});
  w.Connect(true);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10});
  w.Give(StreamDown{"gone"});
  w.Boundary();
  ASSERT_TRUE(w.Did("evaluate 1"));
  EXPECT_FALSE(w.Did("evaluation done"));
  w.Connect(true);
  w.Assign({Version{0}});
  EXPECT_FALSE(w.Did("evaluation done")) << "a coordinator that has started meanwhile may want other versions";
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10});
  EXPECT_TRUE(w.Did("evaluation done"));
  EXPECT_EQ(w.Count("evaluate 1"), 1);
}

TEST(WorkerSync, ClosingContributesTheRestThenReports) {
  World w;
  w.Start();
  w.Steps(2);
  w.Hear(ClosingStarted{JobId{"tiny"}, 10, {Version{0}}});
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 2"));
  EXPECT_EQ(w.uploads.at(0).header.send_step, 10u) << "it stands for the stop step";
  w.lines.clear();
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.Did("ready 10"));
  w.Publish(0, 1, {"w1"}, 10);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_EQ(w.steps_taken, 2u) << "no step after the end";
}

TEST(WorkerSync, ClosingWithoutDriftReportsAtOnce) {
  World w;
  w.Start();
  w.Hear(ClosingStarted{JobId{"tiny"}, 10, {Version{0}}});
  w.Boundary();
  EXPECT_TRUE(w.Did("ready 10"));
  EXPECT_FALSE(w.Did("form"));
}

TEST(WorkerSync, RepeatedClosingRepeatsTheReport) {
  World w;
  w.Start();
  for (int i = 1; i <= 2; ++i) {
    w.Hear(ClosingStarted{JobId{"tiny"}, 10, {Version{0}}});
    for (int boundary = 0; boundary < 3; ++boundary) w.Boundary();
    EXPECT_EQ(w.Count("ready 10"), i);
  }
  EXPECT_EQ(w.Count("note closing"), 1);
}

TEST(WorkerSync, ClosingWaitsForPendingWorkAndSendsTheRest) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 2;
  World w(spec);
  w.Start();
  w.Steps(3);
  ASSERT_TRUE(w.Did("upload 0 v0 steps 2"));
  w.Accept(0);
  w.lines.clear();
  w.Hear(ClosingStarted{JobId{"tiny"}, 3, {Version{0}}});
  w.Boundary();
  EXPECT_FALSE(w.Did("ready")) << "a step is behind that no contribution holds";
  w.Publish(0, 1, {"w1"}, 3);
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
  EXPECT_TRUE(w.Did("upload 0 v1 steps 1"));
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.Did("ready 3"));
}

TEST(WorkerSync, RefusedWhileClosingIsResentOrDiscardedInTime) {
  for (const bool next_comes : {true, false}) {
    World w;
    w.Start();
    w.Steps(2);
    w.Hear(ClosingStarted{JobId{"tiny"}, 10, {Version{0}}});
    w.Boundary();
    const ContributionHeader h = w.uploads.at(0).header;
    w.lines.clear();
    w.Give(UploadEnded{h.target, h.digest, UploadResult::kRefused, "damaged"});
    w.Boundary();
    EXPECT_FALSE(w.Did("ready"));
    if (next_comes) {
      w.Publish(0, 1, {"w2"}, 10);
      w.Boundary();
      w.Boundary();
      EXPECT_TRUE(w.Did("upload 0 v1 steps 2"));
      w.Accept(0);
    } else {
      w.Wait(Seconds(21));
    }
    w.Boundary();
    EXPECT_TRUE(w.Did("ready 10"));
  }
}

TEST(WorkerSync, NoStepBeyondTheStopStep) {
  JobSpec spec = SmallSpec();
  spec.stop.inner_steps = 3;
  World w(spec);
  w.Start();
  for (int i = 0; i < 10; ++i) w.Boundary();
  EXPECT_EQ(w.steps_taken, 3u);
  EXPECT_NE(w.core().waiting_for(w.now()).find("the end of job tiny"), std::string::npos);
}

TEST(WorkerSync, OutdatedWorkerAdvancesItsClockByWholePeriods) {
  World w;
  w.Start();
  w.Steps(1);
  w.Publish(0, 1, {"w2"}, 4);
  w.Publish(0, 2, {"w2"}, 8);
  w.Publish(0, 3, {"w2"}, 12);
  for (int i = 0; i < 4; ++i) w.Boundary();
  EXPECT_EQ(w.core().fragments()[0].applied.value, 3u);
  EXPECT_GE(w.core().clock_step(), 5u);
  EXPECT_EQ((w.core().clock_step() - w.steps_taken) % 4, 0u);
}

}  // namespace
}  // namespace atl::worker
