// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/watchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "coordinator/engine/engine.h"

namespace atl {
namespace {

using testing::ElementsAre;

class Watching : public testing::Test {
 protected:
  // Watches with a reader that accepts views according to `takes_`.
  void Watch(uint64_t watcher) {
    watchers_.Add(watcher, kJob, 0,
                  {.show =
                       [this](const absl::StatusOr<const JobGlance*>& look) {
                         for (const EventLine& event : (*look)->events) seen_.push_back(event.revision);
                         ++looks_;
                       },
                   .takes = [this] { return takes_; }});
    watchers_.MakeDue(watcher, now_);
  }
  void Serve() {
    const auto glance = [this](const JobId& job, uint64_t after_revision) {
      EXPECT_EQ(job, kJob);
      JobGlance glance;
      glance.view.record.state = state_;
      for (uint64_t revision = after_revision + 1; revision <= newest_; ++revision) {
        glance.events.emplace_back();
        glance.events.back().revision = revision;
      }
      return glance;
    };
    while (watchers_.ServeNext(now_, glance)) {
    }
  }

  const JobId kJob{"tiny"};
  Instant now_ = Instant{} + Seconds(1);
  Watchers watchers_;
  JobState state_ = JobState::kRunning;
  uint64_t newest_ = 2;
  bool takes_ = true;
  int looks_ = 0;
  std::vector<uint64_t> seen_;
};

TEST_F(Watching, IsShownAtOnceAtEachEventAndTwiceASecond) {
  Watch(1);
  Serve();
  Serve();
  EXPECT_EQ(looks_, 1);
  EXPECT_EQ(watchers_.NextDue(), now_ + Milliseconds(500));
  newest_ = 3;
  watchers_.MakeDue(kJob, now_);
  watchers_.MakeDue(JobId{"another"}, now_);
  Serve();
  EXPECT_EQ(looks_, 2);
  now_ = watchers_.NextDue();
  Serve();
  EXPECT_EQ(looks_, 3);
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3)) << "each once";
}

TEST_F(Watching, StalledWatcherLaterGetsEverything) {
  Watch(1);
  Serve();
  takes_ = false;
  for (int i = 0; i < 100; ++i, ++newest_, now_ = now_ + Seconds(1)) {
    watchers_.MakeDue(kJob, now_);
    Serve();
    EXPECT_GT(watchers_.NextDue(), now_) << "the ledger is not held for it";
  }
  EXPECT_EQ(looks_, 1);
  takes_ = true;
  state_ = JobState::kSucceeded;
  Serve();
  EXPECT_EQ(looks_, 2);
  ASSERT_EQ(seen_.size(), newest_);
  for (uint64_t i = 0; i < newest_; ++i) EXPECT_EQ(seen_[i], i + 1);
  EXPECT_EQ(watchers_.size(), 0u) << "it has seen the end";
}

}  // namespace
}  // namespace atl
