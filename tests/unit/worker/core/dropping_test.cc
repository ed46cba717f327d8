// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/plan/experiment.h"
#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

constexpr char kMe[] = "w1";  // World::Options

// A job with a seed that drops w1's sync to a version of fragment 0 exactly where `wanted` is true.
JobSpec Drawing(const std::vector<bool>& wanted, JobSpec spec = SmallSpec()) {
  spec.experiment.drop_sync_probability = 0.5;
  for (spec.data.seed = 0;; ++spec.data.seed) {
    bool fits = true;
    for (size_t v = 0; v < wanted.size(); ++v) {
      fits = fits && DropsSync(spec, WorkerId{kMe}, {FragmentIndex{0}, Version{v}}) == wanted[v];
    }
    if (fits) return spec;
  }
}

// A dropped sync; the other workers commit its round.
void Miss(World& w, uint64_t version) {
  w.Steps(4);
  w.Boundary();
  w.Publish(0, version + 1, {"w2"}, 4 * (version + 1));
  w.Boundary();
}

TEST(WorkerDropping, ReportsWaitsAndKeepsItsOwnParameters) {
  World w(Drawing({true, false}));
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Boundary();
  EXPECT_EQ(w.Count("say dropped 0 v0 at 4"), 1);
  EXPECT_EQ(w.steps_taken, 4u) << "it waits for the round like the others";
  EXPECT_NE(w.core().waiting_for(w.now()).find("drops"), std::string::npos);
  w.Publish(0, 1, {"w2"}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1"));
  EXPECT_TRUE(w.Did("resolve 0 dropped"));
  EXPECT_EQ(w.core().fragments()[0].missed, 0u);
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 4u + (w.steps_taken - 4));
  EXPECT_FALSE(w.Did("upload"));
  EXPECT_FALSE(w.Did("form"));
  w.Steps(8 - w.steps_taken);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v1 steps 8")) << "the work of both periods";
}

TEST(WorkerDropping, AnyNumberRunningIsNoReasonToGiveUpTheDrift) {
  World w(Drawing({true, true, true, true, true, false}));
  w.Start();
  for (uint64_t v = 0; v < 5; ++v) Miss(w, v);
  EXPECT_EQ(w.Count("resolve 0 dropped"), 5);
  EXPECT_EQ(w.core().fragments()[0].missed, 0u);
  EXPECT_FALSE(w.Did("drift discarded"));
  EXPECT_FALSE(w.Did("return leases"));
  w.Steps(24 - w.steps_taken);
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v5 steps 24"));
}

TEST(WorkerDropping, EmptyRoundChangesOnlyTheVersion) {
  World w(Drawing({true, false}));
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Publish(0, 1, {}, 4);
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1"));
  EXPECT_TRUE(w.Did("resolve 0 dropped"));
}

TEST(WorkerDropping, SaysItAgainAfterAReconnect) {
  World w(Drawing({true}));
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Give(StreamDown{"broken"});
  w.Connect(true, 2);
  EXPECT_EQ(w.Count("say dropped 0 v0 at 4"), 2);
  const auto& hello = std::get<Hello>(w.said[w.said.size() - 2]);
  EXPECT_TRUE(hello.held.empty()) << "it holds no bytes";
}

TEST(WorkerDropping, SaysItOnceTheStreamIsBack) {
  World w(Drawing({true}));
  w.Start();
  w.Steps(2);
  w.Give(StreamDown{"broken"});
  w.Steps(2);
  w.Boundary();
  EXPECT_FALSE(w.Did("say dropped"));
  w.Connect(true, 1);
  EXPECT_EQ(w.Count("say dropped 0 v0 at 4"), 1);
}

TEST(WorkerDropping, TheClosingRoundsDropNothing) {
  World w(Drawing({true, true}));
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Hear(ClosingStarted{JobId{"tiny"}, 4, {Version{0}}});
  w.Boundary();
  EXPECT_TRUE(w.Did("upload 0 v0 steps 4"));
}

TEST(WorkerDropping, WithOverlapItTrainsOnUntilTheApplyStep) {
  JobSpec spec = SmallSpec();
  spec.sync.overlap_steps = 2;
  World w(Drawing({true, false}, spec));
  w.Start();
  w.Steps(4);
  w.Boundary();
  EXPECT_TRUE(w.Did("say dropped 0 v0 at 2"));
  EXPECT_EQ(w.steps_taken, 4u);
  w.Publish(0, 1, {"w2"}, 2);
  w.Steps(2);
  w.Boundary();
  EXPECT_TRUE(w.Did("resolve 0 dropped"));
  EXPECT_TRUE(w.Did("upload 0 v1 steps 6"));
}

}  // namespace
}  // namespace atl::worker
