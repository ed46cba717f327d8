// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/participation.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

const WorkerId kA{"a"}, kB{"b"};
constexpr FragmentIndex kFirst{0}, kSecond{1};

TEST(Misses, CountRoundsRunningByFragment) {
  MissBook book(2);
  EXPECT_EQ(book.Missed(kFirst, kA), 1u);
  EXPECT_EQ(book.Missed(kFirst, kA), 2u);
  EXPECT_EQ(book.Running(kSecond, kA), 0u);
  EXPECT_EQ(book.Running(kFirst, kB), 0u);
  book.TookPart(kFirst, kA);
  EXPECT_EQ(book.Running(kFirst, kA), 0u);
  book.Missed(kSecond, kA);
  book.Forget(kA);
  EXPECT_EQ(book.Running(kSecond, kA), 0u);
}

TEST(Progress, AFragmentFallsBehindTheOneWithTheMostRounds) {
  FragmentProgress progress(2);
  for (uint64_t v = 1; v <= 3; ++v) progress.Committed(kFirst, v);
  EXPECT_EQ(progress.Lag(kFirst, 3), 0u);
  EXPECT_EQ(progress.Lag(kSecond, 3), 3u);
  progress.Committed(kSecond, 3);
  EXPECT_EQ(progress.Lag(kSecond, 3), 0u) << "fewer rounds, but one now";
  EXPECT_EQ(progress.Lag(kSecond, 5), 2u);
}

TEST(Progress, AStartNeitherForgetsNorInventsALag) {
  FragmentProgress progress(3);
  const VersionVector versions = {Version{26}, Version{2}, Version{26}};
  progress.Recover(versions, {0, 24, 1'000'000});
  EXPECT_EQ(progress.Lag(kSecond, FrontOf(versions)), 24u);
  EXPECT_EQ(progress.Lag(FragmentIndex{2}, FrontOf(versions)), 0u) << "steps are claimed, versions are not";
}

TEST(Remarks, TheWorkerWithTheMostIsTheSuspect) {
  RemarkBook book;
  EXPECT_EQ(book.Line(), "");
  book.Add({kB, {kFirst, Version{1}}, "its norm is large"});
  book.Add({kA, {kFirst, Version{2}}, "its norm is large"});
  book.Add({kA, {kSecond, Version{3}}, "its norm is 30 times the median"});
  EXPECT_EQ(book.Suspect(), kA);
  EXPECT_EQ(book.Line(),
            "look at worker a first: 2 contributions of it stood out, the newest in round 3 of fragment 1 (its norm is "
            "30 times the median)");
  for (uint64_t v = 0; v < 40; ++v) book.Add({kB, {kFirst, Version{v}}, "its norm is large"});
  EXPECT_EQ(book.Suspect(), kB) << "the newest count";
}

}  // namespace
}  // namespace atl
