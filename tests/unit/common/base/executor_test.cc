// SPDX-License-Identifier: Apache-2.0
#include "common/base/executor.h"

#include <gtest/gtest.h>

#include <latch>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

TEST(ManualExecutor, RunsNothingUntilAsked) {
  ManualExecutor executor;
  int ran = 0;
  executor.Post([&] { ++ran; });
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(executor.pending(), 1u);
  executor.RunOne();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(executor.pending(), 0u);
}

TEST(ManualExecutor, RunsOldestFirstWithNewTasks) {
  ManualExecutor executor;
  std::vector<int> order;
  executor.Post([&] {
    order.push_back(1);
    executor.Post([&] { order.push_back(3); });
  });
  executor.Post([&] { order.push_back(2); });
  EXPECT_EQ(executor.RunAll(), 3u);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ManualExecutor, RunsTheOneThatIsPicked) {
  ManualExecutor executor;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) executor.Post([&order, i] { order.push_back(i); });
  executor.RunOne(1);
  executor.RunAll();
  EXPECT_EQ(order, (std::vector<int>{1, 0, 2}));
}

TEST(ManualExecutorDeathTest, RefusesAJobThatIsNotThere) {
  ManualExecutor executor;
  EXPECT_DEATH(executor.RunOne(), "no such pending job");
}

TEST(ThreadExecutor, OneThreadKeepsTheOrder) {
  std::vector<int> order;  // used only by that thread; read after the join
  {
    ThreadExecutor executor(1);
    for (int i = 0; i < 1000; ++i) executor.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ThreadExecutor, DestructorRunsQueuedTasks) {
  Mutex mutex;
  int ran = 0;
  {
    ThreadExecutor executor(3);
    for (int i = 0; i < 300; ++i) {
      executor.Post([&] {
        MutexLock lock(mutex);
        ++ran;
      });
    }
  }
  EXPECT_EQ(ran, 300);
}

TEST(ThreadExecutor, StoppedExecutorDropsNewTasks) {
  int ran = 0;
  ThreadExecutor executor(2);
  executor.Stop();
  executor.Post([&ran] { ++ran; });
  executor.Stop();
  EXPECT_EQ(ran, 0);
}

TEST(ThreadExecutor, TwoWhoseJobsPostToEachOtherStopOneAfterTheOther) {
  std::latch under_way(10);
  ThreadExecutor one(1), other(1);
  std::function<void()> there, back;
  there = [&] { other.Post(back); };
  back = [&] {
    if (!under_way.try_wait()) under_way.count_down();
    one.Post(there);
  };
  one.Post(there);
  under_way.wait();
  one.Stop();
  other.Stop();
}

TEST(ThreadExecutor, SeveralThreadsWorkAtTheSameTime) {
  std::latch both(2);  // opens only if two jobs run at once
  ThreadExecutor executor(2);
  std::latch done(2);
  for (int i = 0; i < 2; ++i) {
    executor.Post([&] {
      both.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
  EXPECT_TRUE(both.try_wait());
}

TEST(ThreadExecutor, AJobMayPostAnother) {
  std::vector<int> order;
  {
    ThreadExecutor executor(1);
    std::latch done(1);
    executor.Post([&] {
      order.push_back(1);
      executor.Post([&] {
        order.push_back(2);
        done.count_down();
      });
    });
    done.wait();
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace atl
