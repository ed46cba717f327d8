// SPDX-License-Identifier: Apache-2.0
#include "worker/replica/cancellable_task.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

TEST(CancellableTask, RunsOnceOnTheFirstThread) {
  ManualExecutor executor;
  int done = 0;
  const auto task = CancellableTask::Send(executor, [&done] { ++done; });
  EXPECT_EQ(done, 0);
  task->Finish();
  EXPECT_EQ(done, 1);
  task->Finish();
  executor.RunAll();
  task->Cancel();
  EXPECT_EQ(done, 1);
}

TEST(CancellableTask, IsNotDoneAnyMoreOnceItIsTakenBack) {
  ManualExecutor executor;
  int done = 0;
  const auto task = CancellableTask::Send(executor, [&done] { ++done; });
  task->Cancel();
  executor.RunAll();
  task->Finish();
  EXPECT_EQ(done, 0);
}

// The work cannot end before the other thread is about to wait for it.
void ExpectWaitedFor(void (CancellableTask::*wait)()) {
  std::promise<void> begun, may_end;
  bool ended = false;
  ThreadExecutor executor(1);
  const auto task = CancellableTask::Send(executor, [&] {
    begun.set_value();
    may_end.get_future().wait();
    ended = true;
  });
  begun.get_future().wait();
  const std::jthread other([&] { may_end.set_value(); });
  (*task.*wait)();
  EXPECT_TRUE(ended);
}

TEST(CancellableTask, ThatRunsIsWaitedFor) {
  ExpectWaitedFor(&CancellableTask::Finish);
  ExpectWaitedFor(&CancellableTask::Cancel);
}

}  // namespace
}  // namespace atl
