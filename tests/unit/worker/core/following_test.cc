// SPDX-License-Identifier: Apache-2.0
// Which coordinator a worker follows, and what it discards when the history differs.
#include <gtest/gtest.h>

#include "common/plan/boot_lines.h"
#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// A damaged byte of the round log loses acknowledged contributions if nothing was written after it.
TEST(WorkerLife, ContributionLostByTheCoordinatorIsResent) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  const ContributionUpload first = w.uploads.at(0);
  w.Accept(0);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 2, 5, {{first.header.target, ContributionFate::kUnknown}});
  EXPECT_TRUE(w.Did("upload 0 v0 steps 4 boot 2"));
  EXPECT_EQ(w.uploads.at(0).header.digest, first.header.digest);
  EXPECT_TRUE(
      w.Did("note contribution sent again: fragment 0: the coordinator had accepted the contribution to version 0"));
  w.Accept(0);
  w.Publish(0, 1, {"w1", "w2"}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 contributor"));
}

TEST(WorkerLife, ALowerBootNumberIsNotFollowed) {
  World w;
  w.Connect(false, 5);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 4);
  EXPECT_TRUE(w.Did("close: the coordinator has boot number 4, but 5 was seen before"));
  EXPECT_TRUE(w.Did("start the coordinator on the newer state, or, to follow this one, end this worker"));
  w.Assign({Version{0}});
  EXPECT_FALSE(w.Did("make job")) << "nothing that such a coordinator says counts";
}

// A state directory was copied, and both copies were started equally often.
TEST(WorkerLife, ASecondCopyOfTheStateIsNotFollowed) {
  World w;
  w.boot_nonce = 0x1111;
  w.Connect(false, 5);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 5);
  EXPECT_FALSE(w.Did("close: ")) << "the same one again";
  w.Give(StreamDown{"gone"});
  w.boot_nonce = 0;
  w.Connect(true, 5);
  EXPECT_FALSE(w.Did("close: ")) << "it is not told by every coordinator";
  w.Give(StreamDown{"gone"});
  w.boot_nonce = 0x1111;
  w.Connect(true, 5);
  w.Give(StreamDown{"gone"});
  w.boot_nonce = 0x2222;
  w.Connect(true, 5);
  EXPECT_TRUE(
      w.Did("close: the coordinator has boot number 5, like another coordinator that this worker has followed"));
  EXPECT_TRUE(w.Did("stop one of them, or, to follow this one, end this worker and start it again"));
  w.Assign({Version{0}});
  EXPECT_FALSE(w.Did("make job")) << "nothing that such a coordinator says counts";
  w.Give(StreamDown{"gone"});
  w.Connect(true, 6);
  w.Assign({Version{0}});
  EXPECT_TRUE(w.Did("make job")) << "a later start of whichever is left";
}

// The drain notice may arrive before the Welcome of a coordinator that is not followed; by then the
// job's fetches have stopped for good.
TEST(WorkerLife, DrainCountsForEachSource) {
  World w;
  w.Connect(false, 5);
  w.prepare = false;
  w.Assign({Version{0}});
  ASSERT_TRUE(w.Did("make job"));
  w.Give(StreamDown{"gone"});
  w.Connect(true, 4);
  ASSERT_TRUE(w.Did("close: the coordinator has boot number 4"));
  w.Hear(DrainRequested{"asked to leave by an operator"});
  w.Boundary();
  EXPECT_TRUE(w.Did("leaving"));
  EXPECT_TRUE(w.Did("exit 0: asked to leave by an operator"));
}

TEST(WorkerLife, AheadOfACoordinatorThatWentBackItFetchesAfresh) {
  World w;
  w.Connect();
  w.Assign({Version{3}});
  ASSERT_EQ(w.core().fragments()[0].applied.value, 3u);
  ASSERT_EQ(w.Count("fetch fragment 0"), 1);
  w.Give(StreamDown{"gone"});
  w.Connect(true, 2);
  w.Assign({Version{1}});
  EXPECT_EQ(w.Count("fetch fragment 0"), 2);
}

// A job of the same name and revision may be another job there.
TEST(WorkerLife, ARestoredCoordinatorIsFollowedFromTheStart) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  ASSERT_TRUE(w.Did("upload 0 v0 steps 4 boot 1"));
  ASSERT_EQ(w.Count("make job"), 1);
  w.Give(StreamDown{"gone"});
  w.Connect(false, kBootsPerLine + 1, 5);
  EXPECT_TRUE(w.Did("release"));
  w.Give(StreamDown{"gone"});
  w.Give(StreamUp{});
  const Hello hello = std::get<Hello>(w.said.back());
  EXPECT_TRUE(hello.held.empty() && hello.leases.empty() && hello.applied.empty());
  EXPECT_EQ(hello.last_boot.value, kBootsPerLine + 1);
  EXPECT_EQ(hello.program_version, "test");
  w.Hear(Welcome{BootNumber{kBootsPerLine + 1}, Incarnation{5}, true, Seconds(2), Seconds(20), {}});
  w.Assign({Version{0}});
  EXPECT_EQ(w.Count("make job"), 2);
  w.Steps(1);
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 1u);
}

// Its moments belong to the discarded history.
TEST(WorkerLife, RollbackWhileDisconnectedResetsTheOptimizer) {
  for (const bool fenced : {true, false}) {
    World w;
    w.Connect();
    w.Assign({Version{3}}, 12);
    w.Steps(2);
    w.Give(StreamDown{"gone"});
    w.lines.clear();
    w.Connect(!fenced, 1, fenced ? 6 : 5);
    w.Assign({Version{1}}, 4);
    EXPECT_TRUE(w.Did("fetch fragment 0"));
    EXPECT_TRUE(w.Did("reset optimizer")) << fenced;
  }
}

// However far the job is on its new course.
TEST(WorkerLife, AnotherCourseResetsTheOptimizer) {
  World w;
  w.Connect(false, kBootsPerLine + 1);
  w.epoch = 1;
  w.Assign({Version{3}}, 12);
  w.Steps(2);
  EXPECT_EQ(w.begun, (JobCourse{1, 1}));
  w.Give(StreamDown{"gone"});
  w.lines.clear();
  w.epoch = 2;
  w.Connect(false, kBootsPerLine + 1, 6);
  w.Assign({Version{9}}, 40);
  EXPECT_TRUE(w.Did("reset optimizer"));
  EXPECT_EQ(w.begun, (JobCourse{1, 2}));
}

}  // namespace
}  // namespace atl::worker
