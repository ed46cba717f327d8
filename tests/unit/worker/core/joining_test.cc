// SPDX-License-Identifier: Apache-2.0
// The start step of a joiner after a long fetch, and earlier contributions of a returning worker.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// The others have trained on meanwhile: a joiner that started at their old step would send
// everything later than they do.
TEST(WorkerJoining, AJoinerThatFetchesLongStartsWhereTheJobIsByThen) {
  struct Case {
    Duration pace, fetch;
    uint64_t heard, starts;
  };
  const Case cases[] = {
      {Seconds(1), Milliseconds(1500), 0, 15},  // of a period of 4
      {Seconds(1), Seconds(2), 15, 15},
      {Seconds(1), Seconds(60), 0, 16},   // no news of the job: less than a period beyond the known step
      {Seconds(1), Seconds(60), 70, 73},  // the same, beyond the newest commit
      {Seconds(1), Seconds(1), 70, 70},   // not before it either
      {Duration{}, Seconds(60), 0, 13},   // the job waits for a joiner
      {Duration{}, Seconds(60), 70, 70},  // the job continues with another joiner
  };
  for (const Case& c : cases) {
    World w;
    w.finish_fetches = false;
    w.Connect();
    w.Assign({Version{3}}, 13, 1, c.pace);
    w.Wait(c.fetch);
    if (c.heard > 0) w.Publish(0, 4, {"w2"}, c.heard);
    w.finish_fetches = true;
    w.Give(FragmentFetched{FragmentIndex{0}, Version{3}});
    EXPECT_TRUE(w.Did(absl::StrCat("ready ", c.starts)))
        << c.fetch.ns << " ns, heard of " << c.heard << ": " << w.core().clock_step();
  }
}

// A job with a stop rule of tokens has no known last step: the planned step is no bound.
TEST(WorkerJoining, AJobOfTokensMayBeBeyondItsPlannedSteps) {
  JobSpec spec = SmallSpec();
  spec.stop = {};
  spec.stop.tokens = 10 * uint64_t{spec.workers.planned} * spec.batch.sequences_per_step * spec.data.sequence_length;
  World w(spec);
  w.finish_fetches = false;
  w.Connect();
  w.Assign({Version{3}}, 13, 1, Seconds(1));
  w.Wait(Seconds(2));
  w.finish_fetches = true;
  w.Give(FragmentFetched{FragmentIndex{0}, Version{3}});
  EXPECT_TRUE(w.Did("ready 15")) << w.core().clock_step();
}

// A version published while the stream was down is only in the next assignment; one fragment is
// installed already.
TEST(WorkerJoining, AssignmentUpdatesInstalledFragments) {
  World w(SmallSpec(), 2);
  w.finish_fetches = false;
  w.Connect();
  w.Assign({Version{0}, Version{0}});
  w.Give(FragmentFetched{FragmentIndex{0}, Version{0}});
  w.Give(StreamDown{});
  w.Connect(true);
  w.Assign({Version{1}, Version{0}}, 4);
  EXPECT_TRUE(w.Did("fetch update 0 v1"));
  EXPECT_FALSE(w.Did("fetch update 1 v1"));
  w.Give(FragmentFetched{FragmentIndex{1}, Version{0}});
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1"));
  EXPECT_EQ(w.steps_taken, 0u) << "the first step is on the newest versions";
}

// A worker that returned with a new incarnation may be uploading another contribution to the same
// round.
TEST(WorkerJoining, EarlierContributionsOfTheNameAreNotAdopted) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Publish(0, 1, {"w1", "w2"}, 4, {Digest{7, 7}, Digest{8, 8}});
  w.Boundary();
  EXPECT_TRUE(w.Did("cancel upload 0"));
  EXPECT_FALSE(w.Did("apply 0 v1 contributor"));
  EXPECT_TRUE(w.Did("resolve 0 missed"));
  EXPECT_EQ(w.core().fragments()[0].steps_behind, 4u) << "the work is kept, and sent with the next version";
}

TEST(WorkerJoining, ItsOwnDigestSaysThatItContributed) {
  World w;
  w.Start();
  w.Steps(4);
  w.Boundary();
  w.Accept(0);
  w.Publish(0, 1, {"w1", "w2"}, 4, {w.uploads.at(0).header.digest, Digest{8, 8}});
  w.Boundary();
  EXPECT_TRUE(w.Did("apply 0 v1 contributor"));
}

// Notices about a job that is still being prepared take effect once it is ready.
TEST(WorkerJoining, HearsOfRevisionsAndVersionsWhileItsPreparationIsTriedAgain) {
  JobSpec spec = SmallSpec();
  spec.stop.inner_steps = 2;
  World w(spec);
  w.prepare = false;
  w.Start();
  spec.stop.inner_steps = 1000;
  w.Hear(Assignment{JobId{"tiny"}, 2, std::make_shared<const JobSpec>(spec), 0, {Version{0}}, {}});
  w.Publish(0, 1, {"w2"}, 4);
  w.prepare = true;
  w.snapshot = Version{0};
  w.Wait(Seconds(3));
  w.Boundary();
  EXPECT_TRUE(w.Did("fetch update 0 v1"));
  w.Steps(3);
  EXPECT_EQ(w.steps_taken, 3u);
}

}  // namespace
}  // namespace atl::worker
