// SPDX-License-Identifier: Apache-2.0
// Joining, waiting, reconnecting and leaving, under a manual clock.
#include <gtest/gtest.h>

#include "common/plan/boot_lines.h"
#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

TEST(WorkerLife, JoinsAtVersionZeroAndTrains) {
  World w;
  w.Start();
  EXPECT_TRUE(w.Did("fetch fragment 0"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_TRUE(w.Did("reset optimizer"));
  EXPECT_TRUE(w.Did("ready 0"));
  w.Steps(2);
  EXPECT_EQ(w.steps_taken, 2u);
  EXPECT_TRUE(w.Did("wish 1 for 16"));  // 2 periods x 4 steps x 2 samples
  ASSERT_EQ(w.steps.size(), 2u);
  EXPECT_EQ(w.steps[1].rate_step, 1u);
  EXPECT_EQ(w.steps[1].ramp_steps, 0u) << "who starts a job is no joiner";
}

TEST(WorkerLife, AJoinerTakesTheClockAndARamp) {
  World w;
  w.Connect();
  w.Assign({Version{3}}, 13);
  w.Steps(1);
  ASSERT_EQ(w.steps.size(), 1u);
  EXPECT_EQ(w.steps[0].rate_step, 13u);
  EXPECT_EQ(w.steps[0].ramp_steps, 2u);
  EXPECT_TRUE(w.Did("ready 13"));
}

TEST(WorkerLife, UpdatesPublishedWhileFetchingAreAppliedInOrder) {
  World w;
  w.finish_fetches = false;
  w.Connect();
  w.Assign({Version{1}}, 4);
  w.Publish(0, 3, {"w2"});
  w.finish_fetches = true;
  w.Give(FragmentFetched{FragmentIndex{0}, Version{1}});
  EXPECT_TRUE(w.Did("fetch update 0 v2"));
  EXPECT_TRUE(w.Did("fetch update 0 v3"));
  for (int i = 0; i < 4; ++i) w.Boundary();
  EXPECT_EQ(w.core().fragments()[0].applied.value, 3u);
}

TEST(WorkerLife, OlderSnapshotIsUpdatedBeforeTheFirstStep) {
  World w;
  w.finish_fetches = w.fetch_updates = false;
  w.Connect();
  w.Assign({Version{3}}, 12);
  w.Give(FragmentFetched{FragmentIndex{0}, Version{1}});
  EXPECT_TRUE(w.Did("fetch update 0 v2"));
  EXPECT_TRUE(w.Did("fetch update 0 v3"));
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 0u);
  w.Give(UpdateFetched{{FragmentIndex{0}, Version{2}}});
  w.Give(UpdateFetched{{FragmentIndex{0}, Version{3}}});
  w.Steps(1);
  EXPECT_EQ(w.core().fragments()[0].applied.value, 3u);
  EXPECT_EQ(w.steps_taken, 1u);
}

TEST(WorkerLife, ReconnectReportsContributionsAndRepeatsTheUpload) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 4 boot 1"));
  w.Give(StreamDown{"gone"});
  EXPECT_TRUE(w.Did("cancel upload 0"));
  w.Give(StreamUp{});
  const Hello hello = std::get<Hello>(w.said.back());
  EXPECT_EQ(hello.incarnation.value, 5u);
  ASSERT_EQ(hello.held.size(), 1u);
  ASSERT_FALSE(hello.leases.empty());
  EXPECT_EQ(hello.leases[0].cursor, 8u);
  w.Hear(Welcome{BootNumber{2},
                 Incarnation{5},
                 true,
                 Seconds(2),
                 Seconds(20),
                 {{hello.held[0].target, ContributionFate::kUnknown}}});
  EXPECT_TRUE(w.Did("upload 0 v0 steps 4 boot 2"));
}

TEST(WorkerLife, AContributionFormedBetweenHelloAndWelcomeIsSent) {
  World w;
  w.Start();
  w.Steps(3);
  w.Give(StreamDown{"gone"});
  w.Give(StreamUp{});
  w.Steps(1);
  w.Boundary();
  ASSERT_TRUE(w.Did("form 0 v0"));
  EXPECT_FALSE(w.Did("upload 0"));
  w.Hear(Welcome{BootNumber{2}, Incarnation{5}, true, Seconds(2), Seconds(20), {}});
  EXPECT_EQ(w.Count("upload 0 v0 steps 4 boot 2"), 1);
}

TEST(WorkerLife, ACommitWhileAwayCountsAsContributed) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Accept(0);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 2, 5, {{{FragmentIndex{0}, Version{0}}, ContributionFate::kCommitted}});
  w.Assign({Version{1}}, 4);
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
}

TEST(WorkerLife, ANewIncarnationFetchesEverythingAgainButKeepsItsMoments) {
  World w;
  w.Start();
  w.Steps(2);
  w.Give(StreamDown{"gone"});
  w.lines.clear();
  w.Connect(false, 1, 6);
  w.Assign({Version{2}}, 8);
  EXPECT_TRUE(w.Did("forget lease 1"));
  EXPECT_TRUE(w.Did("fetch fragment 0"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_FALSE(w.Did("reset optimizer"));
  EXPECT_FALSE(w.Did("make job"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
  w.Steps(1);
  EXPECT_EQ(w.steps.back().rate_step, 8u);
}

// The job ended or was paused while the worker was away: a fenced-out worker gets no message to leave it.
TEST(WorkerLife, JobNotAssignedAgainIsReleased) {
  for (const bool assigned : {false, true}) {
    World w;
    w.Start();
    w.Steps(2);
    w.Give(StreamDown{"gone"});
    w.Connect(false, 1, 6);
    w.Wait(Seconds(19));
    w.Boundary();
    EXPECT_FALSE(w.Did("release"));
    if (assigned) w.Assign({Version{2}}, 8);
    w.Wait(Seconds(2));
    w.Boundary();
    EXPECT_EQ(w.Did("release"), !assigned);
  }
}

TEST(WorkerLife, TrainsOnWithoutCoordinatorUpToTheLimitThenIdlesAndSaysWhy) {
  World w;
  w.Start();
  w.Steps(1);
  w.Give(StreamDown{"gone"});
  for (int i = 0; i < 40; ++i) {
    w.Boundary();
    w.Wait(Seconds(1));
  }
  EXPECT_EQ(w.steps_taken, 8u) << "two periods of four";
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
  EXPECT_NE(w.core().waiting_for(w.now()).find("8 steps since the last one"), std::string::npos);
}

TEST(WorkerLife, WaitsForLeasesAndAsksAgain) {
  World w;
  w.grant_leases = false;
  w.Start();
  w.Boundary();
  EXPECT_EQ(w.Count("wish 1"), 1);
  EXPECT_EQ(w.core().NextWake(), w.now() + kLeaseRepeat);
  EXPECT_NE(w.core().waiting_for(w.now()).find("a lease of 16 samples"), std::string::npos);
  w.Wait(kLeaseRepeat);
  w.Boundary();
  EXPECT_EQ(w.Count("wish 1"), 2) << "a repetition has the same number";
}

TEST(WorkerLife, TheLastSamplesMayBeLessThanABatch) {
  World w;
  w.grant_leases = false;
  w.Start();
  w.Boundary();
  w.Hear(LeaseGranted{JobId{"tiny"}, 1, LeaseId{9}, {0, 3}});
  w.Steps(1);
  EXPECT_EQ(w.steps.back().samples, 2u);
  w.Boundary();
  w.Hear(LeaseDenied{JobId{"tiny"}, 2, "the dataset is used up"});
  w.Steps(1);
  EXPECT_EQ(w.steps.back().samples, 1u);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v0 steps 2")) << "nothing else can come of it";
  w.Boundary();
  EXPECT_NE(w.core().waiting_for(w.now()).find("the dataset is used up"), std::string::npos);
}

TEST(WorkerLife, RevokedLeasesTakeTheDriftWithThem) {
  World w;
  w.Start();
  w.Steps(2);
  w.lines.clear();
  w.Hear(LeaseRevoked{JobId{"tiny"}, {LeaseId{1}}, "it was away"});
  EXPECT_TRUE(w.Did("forget lease 1"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
  EXPECT_EQ(w.core().samples_held(), 0u);
}

TEST(WorkerLife, SigtermWaitsForTheUploadThenReturnsLeasesAndLeaves) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.Did("return leases"));
  EXPECT_EQ(w.core().activity(), WorkerActivity::kDraining);
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_TRUE(w.Did("leaving"));
  EXPECT_TRUE(w.Did("exit 0: SIGTERM"));
  EXPECT_TRUE(w.core().left());
  const auto line = [&](const char* what) { return std::find(w.lines.begin(), w.lines.end(), what); };
  EXPECT_TRUE(line("return leases") < line("leaving") && line("leaving") < line("release")) << "that may take long";
}

TEST(WorkerLife, SigtermDoesNotWaitForEver) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Give(LeaveWanted{"SIGTERM"});
  w.Wait(World::Options().leave_grace);
  w.Boundary();
  EXPECT_TRUE(w.Did("exit 0"));
  EXPECT_TRUE(
      w.Did("note left with unsent work: waited 10 of the 10 s for leaving; fragment 0: its contribution is not "
            "accepted"));
}

TEST(WorkerLife, SigtermInMidPeriodSendsFinishedWork) {
  World w(SmallSpec(), 2);
  w.Start();
  w.Steps(1);
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 1"));
  ASSERT_TRUE(w.Did("upload 1 v0 steps 1"));
  EXPECT_EQ(w.uploads.at(0).header.send_step, 1u);
  ASSERT_EQ(w.uploads.at(0).header.cursors.size(), 1u);
  EXPECT_EQ(w.uploads.at(0).header.cursors[0].cursor, 2u);
  w.Boundary();
  EXPECT_EQ(w.core().NextWake(), w.now() + World::Options().leave_grace);
  w.Accept(0);
  w.Boundary();
  EXPECT_FALSE(w.Did("return leases"));
  w.Accept(1);
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 1u);
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_TRUE(w.Did("exit 0: SIGTERM"));
}

// An update in flight is applied first: a contribution to its previous version would be refused.
TEST(WorkerLife, SigtermTakesInAnUpdateThatIsOnItsWay) {
  World w;
  w.Start();
  w.Steps(1);
  w.fetch_updates = false;
  w.Publish(0, 1, {"w2"}, 4);
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.Did("form 0"));
  EXPECT_FALSE(w.core().left());
  w.Give(UpdateFetched{{FragmentIndex{0}, Version{1}}});
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 missed"));
  ASSERT_TRUE(w.Did("upload 0 v1 steps 1"));
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.Did("exit 0: SIGTERM"));
}

// Work after a contribution with an open round is returned: that round may wait for other workers for a long time.
TEST(WorkerLife, SigtermDoesNotWaitForARound) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 2;
  World w(spec);
  w.Start();
  w.Steps(3);
  w.Accept(0);
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_EQ(w.Count("form 0"), 1);
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_TRUE(w.Did("exit 0"));
}

TEST(WorkerLife, ARefusedLastContributionIsNotTriedAgain) {
  World w;
  w.Start();
  w.Steps(2);
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  const ContributionHeader h = w.uploads.at(0).header;
  w.Give(UploadEnded{h.target, h.digest, UploadResult::kRefused, "the disk is full"});
  w.Boundary();
  EXPECT_EQ(w.Count("form 0"), 1);
  EXPECT_TRUE(w.Did("exit 0"));
}

// A restarting coordinator is back in seconds: work done since the last contributions waits for it.
TEST(WorkerLife, SigtermWaitsForACoordinatorThatIsAway) {
  World w;
  w.Start();
  w.Steps(1);
  w.Give(StreamDown{"gone"});
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  ASSERT_FALSE(w.core().left());
  EXPECT_EQ(w.core().NextWake(), w.now() + World::Options().leave_grace);
  EXPECT_EQ(w.steps_taken, 1u);
  w.Wait(Seconds(5));
  w.Connect(true);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 1"));
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.Did("exit 0: SIGTERM"));
  EXPECT_FALSE(w.Did("left with unsent work"));
}

TEST(WorkerLife, SigtermWaitsForACoordinatorNoLongerThanItsGrace) {
  World w;
  w.Start();
  w.Steps(1);
  w.Give(StreamDown{"gone"});
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  w.Wait(World::Options().leave_grace);
  w.Boundary();
  EXPECT_TRUE(w.Did("exit 0: SIGTERM"));
  EXPECT_TRUE(
      w.Did("note left with unsent work: waited 10 of the 10 s for leaving, the coordinator is unreachable; fragment "
            "0: its last 1 steps are not sent"));
}

TEST(WorkerLife, SigtermWithoutCoordinatorAndWithNothingToSendLeavesAtOnce) {
  World w;
  w.Start();
  w.Give(StreamDown{"gone"});
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.Did("form 0"));
  EXPECT_TRUE(w.Did("exit 0"));
  EXPECT_FALSE(w.Did("left with unsent work"));
}

TEST(WorkerLife, AnIdleWorkerLeavesAtOnce) {
  World w;
  w.Give(LeaveWanted{"SIGINT"});
  w.Boundary();
  EXPECT_TRUE(w.Did("exit 0: SIGINT"));
  w.Give(StreamDown{"gone"});
  EXPECT_EQ(w.core().NextWake(), kNever) << "whoever has left wants nothing more";
}

TEST(WorkerLife, ThreeNonFiniteStepsRunningEndIt) {
  JobSpec spec = SmallSpec();
  spec.sync.inner_steps = 100;
  World w(spec);
  w.Start();
  w.Steps(1);
  w.finite = false;
  w.Steps(2);
  w.finite = true;
  w.Steps(1);
  EXPECT_FALSE(w.core().left()) << "two are not three";
  w.finite = false;
  for (int i = 0; i < 5; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("failure: loss or gradient was not finite in 3 steps in a row"));
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_TRUE(w.Did("exit 2"));
}

TEST(WorkerLife, ARefusalEndsTheProcessUnlessItMayPass) {
  World w;
  w.Give(StreamUp{});
  w.Hear(Refused{"busy", true});
  EXPECT_FALSE(w.core().left());
  EXPECT_TRUE(w.Did("note coordinator refused this worker for now: busy"));
  w.Give(StreamDown{"the stream ended"});
  EXPECT_FALSE(w.Did("note coordinator away: the stream ended")) << "it is there, and said no";
  w.Give(StreamUp{});
  w.Give(StreamDown{"gone"});
  EXPECT_TRUE(w.Did("note coordinator away: gone"));
  w.Give(StreamUp{});
  w.Hear(Refused{"protocol revision 9 is not 1", false});
  EXPECT_TRUE(w.Did("exit 1: the coordinator refused this worker: protocol revision 9 is not 1"));
}

TEST(WorkerLife, BrokenJobIsReportedAndNotRetriedInTheRevision) {
  World w;
  w.Start();
  w.Give(JobBroken{JobId{"tiny"}, "too large", false});
  EXPECT_TRUE(w.Did("failure: too large"));
  EXPECT_TRUE(w.Did("release"));
  w.lines.clear();
  w.Assign({Version{0}});
  EXPECT_TRUE(w.Did("failure: too large"));
  EXPECT_FALSE(w.Did("make job"));
  w.Assign({Version{0}}, 0, 2);
  EXPECT_TRUE(w.Did("make job"));
}

TEST(WorkerLife, UnreachableSourceDuringPreparationIsRetried) {
  World w;
  w.prepare = false;
  w.Start();
  w.Boundary();
  EXPECT_EQ(w.Count("make job"), 1);
  EXPECT_EQ(w.core().activity(), WorkerActivity::kFetching);
  EXPECT_NE(w.core().waiting_for(w.now()).find("the manifest of corpus text"), std::string::npos);
  w.prepare = true;
  w.Wait(kFetchRepeat);
  w.Boundary();
  EXPECT_TRUE(w.Did("ready 0"));
  EXPECT_FALSE(w.Did("failure"));
}

TEST(WorkerLife, AnEvaluatorFollowsTheVersionsAndTakesNoStep) {
  CoreOptions options = World::Options();
  options.evaluate_only = true;
  World w(SmallSpec(), 1, options);
  w.Start();
  w.Boundary();
  EXPECT_FALSE(w.Did("wish"));
  w.Publish(0, 1, {"w2"}, 4);
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_EQ(w.core().fragments()[0].applied.value, 1u);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{1}}, 10});
  w.Boundary();
  EXPECT_TRUE(w.Did("evaluation done"));
  EXPECT_EQ(w.steps_taken, 0u);
}

TEST(WorkerLife, UnassignReturnsEverything) {
  World w;
  w.Start();
  w.Steps(1);
  w.Hear(Unassign{JobId{"tiny"}, "paused"});
  EXPECT_TRUE(w.Did("return leases"));
  EXPECT_TRUE(w.Did("release"));
  EXPECT_EQ(w.core().activity(), WorkerActivity::kIdle);
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).job.value, "");
}

TEST(WorkerLife, ALossIsThatOfTheJobAtHand) {
  World w;
  w.Start();
  w.Steps(1);
  EXPECT_NE(w.core().MakeHeartbeat(w.now()).loss_micro, 0);
  w.Hear(Unassign{JobId{"tiny"}, "paused"});
  w.prepare = false;
  w.Assign({Version{0}});
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).job.value, "tiny");
  EXPECT_EQ(w.core().MakeHeartbeat(w.now()).loss_micro, 0) << "of the steps before";
}

TEST(WorkerLife, ANewRevisionChangesTheSpecAndNothingElse) {
  World w;
  w.Start();
  w.Steps(1);
  w.lines.clear();
  w.Assign({Version{0}}, 0, 2);
  EXPECT_TRUE(w.Did("change spec"));
  EXPECT_FALSE(w.Did("fetch"));
  w.Steps(1);
  EXPECT_EQ(w.steps.back().rate_step, 1u);
}

TEST(WorkerLife, MissingSamplesAreAskedForAgain) {
  World w;
  w.Start();
  w.Steps(1);
  w.samples_there = false;
  w.Boundary();
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
  w.samples_there = true;
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 2u);
  EXPECT_EQ(w.core().activity(), WorkerActivity::kTraining);
}

}  // namespace
}  // namespace atl::worker
