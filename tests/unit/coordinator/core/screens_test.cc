// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/screens.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr FragmentIndex kFirst{0}, kSecond{1};

TEST(StrikeBook, CountsByWorkerAndFragment) {
  StrikeBook book;
  const WorkerId a{"a"}, b{"b"};
  EXPECT_EQ(book.Running(a, kFirst), 0u);
  EXPECT_EQ(book.Strike(a, kFirst, "large"), 1u);
  EXPECT_EQ(book.Strike(a, kSecond, "large"), 1u);
  EXPECT_EQ(book.Strike(b, kFirst, "large"), 1u);
  EXPECT_EQ(book.Strike(a, kFirst, "large"), 2u);
  EXPECT_EQ(book.Running(a, kFirst), 2u);
}

TEST(StrikeBook, AWholeContributionClearsThoseOfItsFragment) {
  StrikeBook book;
  const WorkerId a{"a"};
  book.Clear(a, kFirst);
  book.Strike(a, kFirst, "large");
  book.Strike(a, kSecond, "large");
  book.Clear(a, kFirst);
  EXPECT_EQ(book.Running(a, kFirst), 0u);
  EXPECT_EQ(book.Running(a, kSecond), 1u);
  book.Forget(a);
  EXPECT_EQ(book.Strike(a, kSecond, "large"), 1u);
}

TEST(StrikeBook, TellsTheFragmentWithTheMost) {
  StrikeBook book;
  const WorkerId a{"a"};
  EXPECT_EQ(book.LineOf(a, 3), "");
  book.Strike(a, kFirst, "it is large");
  EXPECT_EQ(book.LineOf(a, 3), "1 strike in fragment 0 (quarantined at 3), the newest: it is large");
  book.Strike(a, kSecond, "it is large");
  book.Strike(a, kSecond, "it is not finite");
  EXPECT_EQ(book.LineOf(a, 0), "2 strikes in fragment 1, the newest: it is not finite");
  book.Clear(a, kSecond);
  book.Clear(a, kFirst);
  EXPECT_EQ(book.LineOf(a, 0), "");
}

TEST(QuarantineLine, SaysWhyAndTheWayBack) {
  WorkerRecord worker;
  worker.worker = WorkerId{"a"};
  worker.quarantine = "it was large";
  EXPECT_EQ(QuarantineLine(worker),
            "worker a is quarantined, since it was large; look at its machine, then 'atoll worker readmit a'");
}

}  // namespace
}  // namespace atl
