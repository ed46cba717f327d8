// SPDX-License-Identifier: Apache-2.0
// S36. Queries and events take turns: a flood of queries stops no round, and every query is answered.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stop_token>
#include <utility>
#include <vector>

#include "coordinator/engine/look_share.h"
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

// Whatever looks cost, events do not wait for them, and no step is held for a look that waits for its share.
TEST_F(Looks, ExpensiveOnesTakeTheirShareOfTheTime) {
  c_.Settle();
  Flood();
  on_look_ = [this] { clock_.Advance(Milliseconds(10)); };
  const Instant begin = clock_.Now();
  while (shown_ < kFlood / 10) {
    const int before = shown_;
    const Instant next = c_.engine.Turn();
    EXPECT_LE(shown_ - before, 2 * static_cast<int>(kLooksAtOnce));
    if (next > clock_.Now()) clock_.Set(next);
  }
  const Duration all = clock_.Now() - begin, looks = Milliseconds(10) * shown_;
  EXPECT_LE(looks.ns, (all / LookShare::kOneIn + LookShare::kAtOnce + Milliseconds(20)).ns);
  EXPECT_LE(all.ns, (looks * (LookShare::kOneIn + 2)).ns) << "no look waits longer than for its share";
  EXPECT_TRUE(c_.Submit(TinySpec("tiny")).ok());
  EXPECT_LT(shown_, kFlood);
}

TEST_F(Looks, ExpensiveWatchersTakeTheirShareOfTheTimeAndStarveNobody) {
  c_.Settle();
  ASSERT_TRUE(c_.Submit(TinySpec("tiny")).ok());
  constexpr int kWatchers = 32;
  std::vector<int> glances(kWatchers);
  for (int i = 0; i < kWatchers; ++i) {
    c_.engine.Watch(JobId{"tiny"}, 0, {[this, &glances, i](const absl::StatusOr<const JobGlance*>&) {
                      ++glances[static_cast<size_t>(i)];
                      clock_.Advance(Milliseconds(10));
                    }});
  }
  const Instant begin = clock_.Now();
  bool queried = false;
  while (clock_.Now() < begin + Seconds(60)) {
    const Instant next = c_.engine.Turn();
    c_.RunWork();
    if (next > clock_.Now()) clock_.Set(next);
    if (!queried && clock_.Now() > begin + Seconds(30)) {
      queried = true;
      c_.engine.Query([this](const Core&, const History&, Instant) { ++shown_; });
      (void)c_.engine.Turn();
      EXPECT_EQ(shown_, 1) << "queries do not wait for watchers";
    }
  }
  int all = 0;
  for (const int of_one : glances) {
    all += of_one;
    EXPECT_GE(of_one, 60 * 100 / LookShare::kOneIn / kWatchers / 2);
  }
  EXPECT_LE(all, 60 * 100 / LookShare::kOneIn + 10);
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
