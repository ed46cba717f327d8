// SPDX-License-Identifier: Apache-2.0
// Queries and events take turns: a flood of queries stops no round, and every query is answered.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stop_token>
#include <utility>

#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

constexpr int kFlood = 1000;

class Looks : public testing::Test {
 protected:
  void Flood() {
    for (int i = 0; i < kFlood; ++i) {
      c_.engine.Query([this](const Core&, const History&, Instant) {
        ++shown_;
        if (on_look_) on_look_();
      });
    }
  }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  int shown_ = 0;
  std::function<void()> on_look_;
};

// Events with and without a record: a submit is decided at once and answered after its commit.
TEST_F(Looks, AnEventWaitsForAFewOnly) {
  c_.Settle();
  Flood();
  int decided = 0, posted = 0, most = 0;
  bool waits = false;
  on_look_ = [&] {
    if (std::exchange(waits, true)) return;
    posted = shown_;
    c_.engine.Watch(JobId{"none"}, 0, {[&](const absl::StatusOr<const JobGlance*>&) {
                      ++decided;
                      most = std::max(most, shown_ - posted);
                      waits = false;
                    }});
  };
  for (int turns = 0; turns < kFlood && shown_ < kFlood; ++turns) (void)c_.engine.Turn();
  EXPECT_EQ(shown_, kFlood);
  EXPECT_GE(decided, kFlood / static_cast<int>(kLooksAtOnce) - 1);
  EXPECT_LE(most, static_cast<int>(kLooksAtOnce));
}

TEST_F(Looks, ACommitIsMadeAndAnsweredDuringAFlood) {
  c_.Settle();
  Flood();
  (void)c_.engine.Turn();
  EXPECT_TRUE(c_.Submit(TinySpec("tiny")).ok());
  EXPECT_LT(shown_, kFlood) << "the answer came before the flood was over";
}

TEST_F(Looks, WithoutEventsEachIsAnsweredAndTheEngineAsksForItsNextTurnAtOnce) {
  c_.Settle();
  Flood();
  for (int turns = 0; shown_ < kFlood; ++turns) {
    ASSERT_LT(turns, kFlood);
    const int before = shown_;
    const Instant next = c_.engine.Turn();
    EXPECT_GT(shown_, before);
    if (shown_ < kFlood) EXPECT_LE(next, clock_.Now());
  }
  EXPECT_GT(c_.engine.Turn(), clock_.Now());
}

TEST_F(Looks, AStopAnswersThoseThatWait) {
  c_.Settle();
  Flood();
  std::stop_source stop;
  stop.request_stop();
  c_.engine.Run(stop.get_token());
  EXPECT_EQ(shown_, kFlood);
}

}  // namespace
}  // namespace atl
