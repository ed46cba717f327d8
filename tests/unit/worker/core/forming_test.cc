// SPDX-License-Identifier: Apache-2.0
// A contribution is formed while training continues. It holds the parameters of its send, and every
// exit from the job or reset of the drift cancels it.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

const FragmentVersion kFirst{FragmentIndex{0}, Version{0}};

// Sent at step 2, merged at step 4.
JobSpec Overlapped() {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 2;
  return spec;
}

// The boundary after step 2: its contribution is being formed, and step 3 is taken in the same
// boundary.
void TrainToTheSend(World& w) {
  w.Start();
  w.form_and_apply = false;
  w.Steps(3);
  ASSERT_EQ(w.Count("form 0 v0"), 1);
}

void Formed(World& w) { w.Give(ContributionFormed{kFirst, Digest{7, 7}, 16, {}}); }

TEST(WorkerForming, StepsAreTakenMeanwhileAndNotCounted) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  EXPECT_FALSE(w.Did("upload"));
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 4u);
  Formed(w);
  ASSERT_TRUE(w.Did("upload 0 v0 steps 2"));
  const ContributionHeader& sent = w.uploads.at(0).header;
  EXPECT_EQ(sent.send_step, 2u);
  EXPECT_EQ(sent.tokens, 2 * 16u);
  EXPECT_EQ(sent.digest, (Digest{7, 7}));
  EXPECT_EQ(sent.encoded_bytes, 16u);
  ASSERT_EQ(sent.cursors.size(), 1u);
  EXPECT_EQ(sent.cursors[0].cursor, 2 * 2u) << "of the samples behind step 2";
}

TEST(WorkerForming, TheApplyStepWaitsForItsUpdateAllTheSame) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Steps(2);  // one more at most
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 4u);
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
}

TEST(WorkerForming, AnUpdateOfTheFragmentWaitsUntilItIsFormed) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Publish(0, 1, {"w2"});
  w.Boundary();
  EXPECT_FALSE(w.Did("apply")) << "it is measured against version 0";
  w.form_and_apply = true;
  Formed(w);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1"));
  EXPECT_TRUE(w.Did("resolve 0 missed"));
}

TEST(WorkerForming, NoOtherContributionIsFormedMeanwhile) {
  JobSpec spec = Overlapped();
  spec.sync.deadline = Seconds(1);
  World w(spec);
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Steps(1);
  w.Boundary();
  w.Wait(Seconds(2));  // the patience of an apply step
  w.Steps(3);
  w.Boundary();
  EXPECT_GE(w.steps_taken, 6u);
  EXPECT_EQ(w.Count("form 0"), 1);
  EXPECT_TRUE(w.Did("send skipped"));
}

TEST(WorkerForming, AStreamThatBreaksMeanwhileSendsItAfterTheNextWelcome) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Give(StreamDown{"gone"});
  w.said.clear();
  w.Give(StreamUp{});
  ASSERT_TRUE(std::holds_alternative<Hello>(w.said.back()));
  EXPECT_TRUE(std::get<Hello>(w.said.back()).held.empty()) << "it has no digest yet";
  w.Hear(Welcome{BootNumber{2}, Incarnation{5}, true, Seconds(2), Seconds(20), {{kFirst, ContributionFate::kRefused}}});
  EXPECT_FALSE(w.Did("upload"));
  EXPECT_FALSE(w.Did("contribution refused")) << "a fate is that of one that was held at Hello";
  Formed(w);
  EXPECT_TRUE(w.Did("upload 0 v0 steps 2 boot 2"));
}

TEST(WorkerForming, ContributionFormedOfflineIsSentLater) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Give(StreamDown{"gone"});
  Formed(w);
  EXPECT_FALSE(w.Did("upload"));
  w.Connect(true, 2);
  EXPECT_TRUE(w.Did("upload 0 v0 steps 2 boot 2"));
}

TEST(WorkerForming, ANewIncarnationTakesItBack) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Connect(false, 2, 6);
  EXPECT_TRUE(w.Did("drop contribution 0"));
  Formed(w);
  EXPECT_FALSE(w.Did("upload"));
}

TEST(WorkerForming, LeavingTheJobTakesItBack) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Hear(Unassign{JobId{"tiny"}, "paused"});
  EXPECT_TRUE(w.Did("drop contribution 0"));
  EXPECT_TRUE(w.Did("release"));
  Formed(w);
  EXPECT_FALSE(w.Did("upload"));
}

TEST(WorkerForming, AFragmentThatIsFetchedWholeTakesItBack) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.fetch_updates = w.finish_fetches = false;
  w.Publish(0, 1, {"w2"});
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "it is not kept any more"});
  EXPECT_TRUE(w.Did("drop contribution 0"));
  EXPECT_TRUE(w.Did("fetch fragment 0"));
  Formed(w);
  EXPECT_FALSE(w.Did("upload"));
}

TEST(WorkerForming, LeavingWaitsForItAndForItsUpload) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_FALSE(w.core().left());
  Formed(w);
  ASSERT_TRUE(w.Did("upload 0 v0 steps 2"));
  w.Boundary();
  EXPECT_FALSE(w.core().left());
  w.Accept(0);
  w.Boundary();
  EXPECT_TRUE(w.core().left());
}

TEST(WorkerForming, LeavingWaitsForItNoLongerThanItsGrace) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  ASSERT_FALSE(w.core().left());
  w.Wait(World::Options().leave_grace);
  w.Boundary();
  EXPECT_TRUE(w.core().left());
  EXPECT_TRUE(w.Did("drop contribution 0"));
}

TEST(WorkerForming, FailedFormingDiscardsTheDriftOfAllFragments) {
  JobSpec spec = SmallSpec();
  spec.sync.inner_steps = 1;
  spec.sync.max_unsynced_periods = 4;
  World w(spec, 2);
  w.Start();
  w.form_and_apply = false;
  w.Steps(1);
  w.Boundary();
  ASSERT_TRUE(w.Did("form 0 v0"));
  ASSERT_TRUE(w.Did("form 1 v0"));
  w.Give(ContributionFailed{kFirst, "it is not finite"});
  EXPECT_TRUE(w.Did("drift discarded"));
  EXPECT_TRUE(w.Did("drop contribution 1"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_TRUE(w.Did("adopt 1"));
  EXPECT_TRUE(w.Did("return leases"));
  w.Give(ContributionFormed{{FragmentIndex{1}, Version{0}}, Digest{7, 7}, 16, {}});
  EXPECT_FALSE(w.Did("upload"));
}

TEST(WorkerForming, TheEndOfAJobWaitsForIt) {
  World w(Overlapped());
  ASSERT_NO_FATAL_FAILURE(TrainToTheSend(w));
  w.Hear(ClosingStarted{JobId{"tiny"}, 3, {Version{0}}});
  w.Boundary();
  const int ready = w.Count("ready");
  Formed(w);
  w.Accept(0);
  w.form_and_apply = true;
  w.Boundary();
  EXPECT_EQ(w.Count("ready"), ready) << "a step is behind it";
  w.Publish(0, 1, {"w1"}, 3);
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v1 steps 1"));
  w.Accept(0);
  w.Boundary();
  EXPECT_EQ(w.Count("ready"), ready + 1);
}

}  // namespace
}  // namespace atl::worker
