// SPDX-License-Identifier: Apache-2.0
#include "worker/session/errand.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

TEST(Errand, RunsOnceOnTheFirstThread) {
  ManualExecutor executor;
  int done = 0;
  const auto errand = Errand::Send(executor, [&done] { ++done; });
  EXPECT_EQ(done, 0);
  errand->Finish();
  EXPECT_EQ(done, 1);
  errand->Finish();
  executor.RunAll();
  errand->TakeBack();
  EXPECT_EQ(done, 1);
}

TEST(Errand, IsNotDoneAnyMoreOnceItIsTakenBack) {
  ManualExecutor executor;
  int done = 0;
  const auto errand = Errand::Send(executor, [&done] { ++done; });
  errand->TakeBack();
  executor.RunAll();
  errand->Finish();
  EXPECT_EQ(done, 0);
}

// The work cannot end before the other thread is about to wait for it.
void ExpectWaitedFor(void (Errand::*wait)()) {
  std::promise<void> begun, may_end;
  bool ended = false;
  ThreadExecutor executor(1);
  const auto errand = Errand::Send(executor, [&] {
    begun.set_value();
    may_end.get_future().wait();
    ended = true;
  });
  begun.get_future().wait();
  const std::jthread other([&] { may_end.set_value(); });
  (*errand.*wait)();
  EXPECT_TRUE(ended);
}

TEST(Errand, ThatRunsIsWaitedFor) {
  ExpectWaitedFor(&Errand::Finish);
  ExpectWaitedFor(&Errand::TakeBack);
}

}  // namespace
}  // namespace atl
