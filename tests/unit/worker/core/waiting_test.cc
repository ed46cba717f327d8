// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

TEST(WorkerWaiting, AWaitForSamplesGrowsOverTheTriesOfItsStep) {
  World w;
  w.samples_there = false;
  w.Start();
  w.Boundary();  // a lease
  for (int i = 0; i <= 30; ++i) {
    w.Boundary();
    EXPECT_EQ(w.core().waiting_for(w.now()), absl::StrCat("samples, for ", i, " s"));
    w.Wait(Seconds(1));
  }
  w.samples_there = true;
  w.Boundary();
  EXPECT_EQ(w.steps_taken, 1u);
  EXPECT_EQ(w.core().waiting_for(w.now()), "");
  w.samples_there = false;
  w.Boundary();
  EXPECT_EQ(w.core().waiting_for(w.now()), "samples, for 0 s") << "of another step it is another wait";
}

TEST(WorkerWaiting, AWaitForSamplesLastsWhateverTheReason) {
  World w;
  w.samples_there = false;
  w.Start();
  w.Boundary();  // a lease
  w.Boundary();
  w.Wait(Seconds(7));
  w.Give(SamplesMissing{"samples: the coordinator is away"});
  EXPECT_EQ(w.core().waiting_for(w.now()), "samples: the coordinator is away, for 7 s");
}

TEST(WorkerWaiting, AvailableSamplesEndTheWaitBeforeTheStepEnds) {
  World w;
  w.samples_there = false;
  w.Start();
  w.Boundary();  // a lease
  w.Boundary();
  EXPECT_EQ(w.core().activity(), WorkerActivity::kWaiting);
  w.samples_there = true;
  for (const Effect& effect : w.core().Step(worker::Boundary{}, w.now())) {
    if (std::holds_alternative<TakeStep>(effect)) w.steps.push_back(std::get<TakeStep>(effect));
  }
  ASSERT_EQ(w.steps.size(), 1u) << "it runs";
  EXPECT_EQ(w.core().activity(), WorkerActivity::kTraining);
}

}  // namespace
}  // namespace atl::worker
