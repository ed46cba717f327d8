// A job whose parameters are let go while a round of it is being merged: the round is dropped, its file closed, and the
// coordinator goes on.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

class Release : public testing::Test {
 protected:
  Release() {
    (void)c_.Submit(TinySpec("tiny"));
    key_.epoch = c_.View("tiny").record.epoch;
    c_.data.SetEventSink([this](Event event) { events_.push_back(std::move(event)); });
  }
  // Gives the compute executor a round without contributions to close.
  void Close() {
    struct CloseRound task;
    task.job = key_.job;
    task.target = key_.target;
    c_.data.CloseRound(task, c_.View("tiny").record, BootNumber{1});
    ASSERT_EQ(c_.work.pending(), 1u);
  }
  bool HasRound() const {
    return std::any_of(events_.begin(), events_.end(),
                       [](const Event& event) { return std::holds_alternative<RoundAggregated>(event); });
  }
  bool SegmentIsOpen() { return c_.rounds.Info(key_).ok(); }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  RoundKey key_{JobId{"tiny"}, 0, {FragmentIndex{0}, Version{0}}};
  std::vector<Event> events_;
};

TEST_F(Release, ARoundOfAJobThatIsThereIsWritten) {
  Close();
  c_.work.RunAll();
  EXPECT_TRUE(HasRound());
  EXPECT_TRUE(SegmentIsOpen());
}

TEST_F(Release, BehindTheMergeAndBeforeItsUpdateIsWritten) {
  Close();
  c_.work.RunOne();  // merged; the update is still to be written
  ASSERT_TRUE(SegmentIsOpen());
  c_.data.Release(key_.job);
  c_.work.RunOne(c_.work.pending() - 1);  // the files are closed first
  ASSERT_FALSE(SegmentIsOpen());
  c_.work.RunAll();
  EXPECT_FALSE(HasRound());
  EXPECT_FALSE(SegmentIsOpen());
}

TEST_F(Release, BeforeTheMerge) {
  Close();
  c_.data.Release(key_.job);
  c_.work.RunOne(1);
  c_.work.RunAll();
  EXPECT_FALSE(HasRound());
  EXPECT_FALSE(SegmentIsOpen());
}

}  // namespace
}  // namespace atl
