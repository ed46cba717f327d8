// At the limit of steps without an update.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// Without a coordinator, to the limit of steps without an update.
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

// Nobody else is at work: its own next contribution must make the update.
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

// Away from a send step and without samples, nothing else can come: others may wait for what it has.
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

}  // namespace
}  // namespace atl::worker
