// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/shards.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

const WorkerId kA{"a"}, kB{"b"}, kC{"c"};

TEST(ShardBook, EachWorkerKeepsACorpusOfItsOwn) {
  ShardBook book(2);
  EXPECT_EQ(book.Take(kB, {kA, kB}), 0u);
  EXPECT_EQ(book.Take(kA, {kA, kB}), 1u);
  EXPECT_EQ(book.Take(kB, {kA, kB}), 0u);
  EXPECT_EQ(book.Of(kA), 1u);
  EXPECT_EQ(book.Of(kC), std::nullopt);
}

TEST(ShardBook, ANewcomerTakesWhatNobodyHadThenWhatIsLeftBehind) {
  ShardBook book(3);
  book.Take(kA, {kA});
  book.Take(kB, {kA, kB});
  EXPECT_EQ(book.Take(kC, {kB, kC}), 2u) << "a is away, and one was never read";
  const WorkerId d{"d"};
  EXPECT_EQ(book.Take(d, {kB, kC, d}), 0u);
  EXPECT_EQ(book.Take(kA, {kA, kB, kC, d}), std::nullopt) << "all are read by others";
  EXPECT_EQ(book.Take(kA, {kA, kC, d}), 1u);
  EXPECT_EQ(book.Of(kB), std::nullopt);
}

TEST(ShardBook, RemembersTheNewestWord) {
  ShardBook book(2);
  book.Saw(kA, 0);
  book.Saw(kA, 1);
  book.Saw(kB, 1);
  book.Saw(kC, 7);
  EXPECT_EQ(book.Of(kA), std::nullopt);
  EXPECT_EQ(book.Of(kB), 1u);
  EXPECT_EQ(book.Of(kC), std::nullopt);
}

TEST(ShardBook, WhatTheForgottenHadNobodyHas) {
  ShardBook book(2);
  book.Take(kA, {kA});
  book.Take(kB, {kA, kB});
  book.Forget(kA);
  EXPECT_EQ(book.Take(kC, {kA, kB, kC}), 0u);
}

TEST(ShardBook, WithoutShardsThereIsNothingToTake) {
  ShardBook book(0);
  EXPECT_EQ(book.Take(kA, {kA}), std::nullopt);
}

}  // namespace
}  // namespace atl
