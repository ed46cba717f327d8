// SPDX-License-Identifier: Apache-2.0
// Requests for a worker's log lines must not fill its uplink: one request at a time and one per
// second, for all clients together.
#include "coordinator/engine/logs_wishes.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

using Lines = std::vector<std::string>;

class LogsWishesTest : public testing::Test {
 protected:
  void Want(uint32_t lines, int64_t since_wall_nanos = 0) {
    wishes_.Want(worker_, lines, since_wall_nanos, now_,
                 [this](const absl::StatusOr<Lines>& answer) { answers_.push_back(answer); });
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    wishes_.Serve(now_);
  }

  const WorkerId worker_{"w"};
  bool connected_ = true;
  std::vector<LogsWanted> asked_;
  std::vector<absl::StatusOr<Lines>> answers_;
  Instant now_{};
  LogsWishes wishes_{[this](const WorkerId&, const LogsWanted& wanted) {
    if (connected_) asked_.push_back(wanted);
    return connected_;
  }};
};

TEST_F(LogsWishesTest, AWorkerIsAskedOneQuestionAtATimeAndOneASecond) {
  Want(2);
  Want(2000);
  Want(3);
  ASSERT_EQ(asked_.size(), 1u);
  Pass(Seconds(2));
  ASSERT_EQ(asked_.size(), 1u) << "it has not answered yet";
  wishes_.Answered({asked_[0].request, {"a", "b"}});
  EXPECT_EQ(answers_.size(), 1u);
  Pass({});
  ASSERT_EQ(asked_.size(), 2u) << "those who waited share one";
  EXPECT_EQ(asked_[1].lines, 2000u);
  wishes_.Answered({asked_[1].request, {"a", "b", "c", "d"}});
  ASSERT_EQ(answers_.size(), 3u);
  EXPECT_EQ(*answers_[1], (Lines{"a", "b", "c", "d"}));
  EXPECT_EQ(*answers_[2], (Lines{"b", "c", "d"}));
  Want(1);
  Pass(Milliseconds(900));
  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_EQ(wishes_.NextDue(), now_ + Milliseconds(100));
  Pass(Milliseconds(100));
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(LogsWishesTest, FloodOfCallsIsRefusedAndFollowersWait) {
  for (size_t i = 0; i < 1 + LogsWishes::kWaiting; ++i) Want(2000);
  EXPECT_TRUE(answers_.empty());
  Want(2000);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(answers_[0].status())) << answers_[0].status();
  Want(2000, 7);
  EXPECT_EQ(answers_.size(), 1u);
  for (int i = 0; i < 3; ++i) {
    wishes_.Answered({asked_.back().request, {}});
    Pass(Seconds(1));
  }
  EXPECT_EQ(asked_.size(), 3u);
  EXPECT_EQ(asked_.back().since_wall_nanos, 7);
  EXPECT_EQ(answers_.size(), 1 + LogsWishes::kWaiting + 2);
}

TEST_F(LogsWishesTest, ASilentWorkerAndOneThatIsGoneHaveNoLines) {
  Want(1);
  Want(1, 7);
  EXPECT_EQ(wishes_.NextDue(), now_ + LogsWishes::kDeadline);
  Pass(LogsWishes::kDeadline);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(*answers_[1], Lines{});
  EXPECT_EQ(wishes_.Asked(asked_[0].request), nullptr) << "too late now";
  EXPECT_EQ(wishes_.NextDue(), kNever);
  connected_ = false;
  Want(1);
  ASSERT_EQ(answers_.size(), 3u);
  EXPECT_EQ(*answers_[2], Lines{});
}

}  // namespace
}  // namespace atl
