// SPDX-License-Identifier: Apache-2.0
// A worker that missed versions catches up by updates or by the whole fragment, never at the cost
// of its drift.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// Four updates of 20 bytes are more than a fragment of 64, three are not.
TEST(WorkerLeaping, OutdatedWorkerFetchesFewerBytesAndKeepsItsDrift) {
  for (const uint64_t behind : {3u, 4u}) {
    World w;
    w.Start();
    w.Steps(3);
    w.Give(StreamDown{"gone"});
    w.Connect(true);
    w.lines.clear();
    w.Assign({Version{behind}}, 4 * behind);
    w.Steps(3);
    EXPECT_EQ(w.Did("fetch update 0 v1"), behind == 3);
    EXPECT_EQ(w.Did("fetch fragment 0 from v4"), behind == 4);
    EXPECT_EQ(w.Did("leap 0 v4"), behind == 4);
    EXPECT_EQ(w.Count("resolve 0 missed"), behind == 3 ? 3 : 1);
    EXPECT_TRUE(w.Did(absl::StrCat("applied 0 v", behind)));
    EXPECT_EQ(w.steps_taken, 6u) << "the others have sent at this step already: there is nothing to wait for";
    EXPECT_FALSE(w.Did("adopt"));
    EXPECT_GE(w.core().fragments()[0].steps_behind, 3u) << "the drift goes with the next send";
    EXPECT_EQ(w.core().fragments()[0].applied.value, behind);
  }
}

TEST(WorkerLeaping, ASnapshotTooOldToBeWorthItsBytesIsNotFetched) {
  World w;
  w.Start();
  w.Steps(3);
  w.Give(StreamDown{"gone"});
  w.Connect(true);
  w.snapshot = Version{3};
  w.lines.clear();
  w.fetch_updates = false;
  w.Assign({Version{6}}, 24);
  EXPECT_EQ(w.Count("fetch fragment 0 from v4"), 1);
  EXPECT_FALSE(w.Did("leap"));
  EXPECT_TRUE(w.Did("fetch update 0 v1"));
  w.Publish(0, 7, {"w2"}, 28);
  EXPECT_EQ(w.Count("fetch fragment 0"), 1) << "asked once for the versions that were known";
}

TEST(WorkerLeaping, ALeapGoesOnWithTheUpdatesSinceTheSnapshot) {
  World w;
  w.Start();
  w.Steps(3);
  w.Give(StreamDown{"gone"});
  w.Connect(true);
  w.finish_fetches = false;
  w.Assign({Version{6}}, 24);
  w.Publish(0, 7, {"w2"}, 28);
  w.Steps(2);
  EXPECT_FALSE(w.Did("form 0")) << "a contribution would be against a version left behind";
  w.Give(FragmentFetched{FragmentIndex{0}, Version{5}});
  w.Steps(2);
  EXPECT_TRUE(w.Did("leap 0 v5"));
  EXPECT_TRUE(w.Did("apply 0 v6"));
  EXPECT_TRUE(w.Did("apply 0 v7"));
  EXPECT_EQ(w.core().fragments()[0].applied.value, 7u);
}

// The held contribution may be in a version that the leap skips: then it would count twice.
TEST(WorkerLeaping, NothingIsLeaptOverWhileAContributionIsHeld) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Accept(0);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 1, 5, {{{FragmentIndex{0}, Version{0}}, ContributionFate::kCommitted}});
  w.lines.clear();
  w.Assign({Version{6}}, 24);
  w.Boundary();
  EXPECT_FALSE(w.Did("fetch fragment"));
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
}

TEST(WorkerLeaping, AnUpdateThatIsNotKeptBringsTheFragmentAndKeepsTheDrift) {
  World w;
  w.Start();
  w.Steps(3);
  w.fetch_updates = false;
  w.snapshot = Version{2};
  w.Publish(0, 1, {"w2"}, 4);
  w.Publish(0, 2, {"w2"}, 8);
  w.lines.clear();
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
  EXPECT_TRUE(w.Did("fetch fragment 0 from v1"));
  EXPECT_TRUE(w.Did("leap 0 v2"));
  EXPECT_FALSE(w.Did("adopt"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 3u);
}

TEST(WorkerLeaping, WithoutUpdateOrSnapshotTheOuterCopyIsTaken) {
  World w;
  w.Start();
  w.Steps(3);
  w.fetch_updates = false;
  w.snapshot = Version{0};
  w.Publish(0, 1, {"w2"}, 4);
  w.lines.clear();
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
  EXPECT_TRUE(w.Did("install 0 v0"));
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
}

// The coordinator or its disk is faulty: the worker must not fetch a fragment over and over at the
// full rate of the link.
TEST(WorkerLeaping, UselessWholeFetchIsRepeatedAfterAPause) {
  World w;
  w.Start();
  w.fetch_updates = false;
  w.snapshot = Version{0};  // the fetched version is not newer
  w.Assign({Version{1}}, 4);
  const UpdateFetchFailed failed{{FragmentIndex{0}, Version{1}}, "not kept"};
  w.Give(failed);
  EXPECT_TRUE(w.Did("install 0 v0"));
  w.lines.clear();
  w.Give(failed);
  EXPECT_FALSE(w.Did("install 0 v0"));
  w.fetch_updates = true;
  w.Wait(kFetchRepeat);
  w.Boundary();
  EXPECT_TRUE(w.Did("install 0 v0"));
  w.Boundary();
  EXPECT_EQ(w.core().fragments()[0].applied.value, 1u);
  w.fetch_updates = false;
  w.Publish(0, 2, {"w2"}, 8);
  w.lines.clear();
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{2}}, "not kept"});  // meanwhile an update arrived
  EXPECT_TRUE(w.Did("install 0 v0"));
}

// The fetched fragment overwrites the training done meanwhile, so no contribution may count that
// training.
TEST(WorkerSync, StepsOfADeviantWhileItFetchesAreInNoDrift) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Accept(0);
  w.Publish(0, 1, {"w1"}, 4);
  w.hash_matches = w.finish_fetches = false;
  w.Assign({Version{1}}, 4);
  w.Boundary();
  ASSERT_TRUE(w.Did("applied 0 v1 deviant"));
  w.Steps(3);
  w.Give(FragmentFetched{FragmentIndex{0}, Version{1}});
  EXPECT_TRUE(w.Did("adopt 0"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 0u);
  w.Steps(1);
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 1u);
}

}  // namespace
}  // namespace atl::worker
