// SPDX-License-Identifier: Apache-2.0
// The order in which downloads are read (S20): a limited number at once, connections in turn, and
// no recursion for work that ends at once.
#include "common/rpc/download_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Work that runs until the test ends it.
class Kept {
 public:
  DownloadTurns::Work Named(const std::string& name) {
    return [this, name](DownloadTurns::Done done) {
      began.push_back(name);
      done_.push_back(std::move(done));
    };
  }
  void EndOldest() {
    const DownloadTurns::Done done = std::move(done_.at(ended_++));
    done();
  }
  std::vector<std::string> began;

 private:
  std::vector<DownloadTurns::Done> done_;
  size_t ended_ = 0;
};

TEST(DownloadTurns, AConnectionHasOnlySoManyDownloads) {
  DownloadTurns turns(2, 1);
  EXPECT_TRUE(turns.Enter("a"));
  EXPECT_TRUE(turns.Enter("a"));
  EXPECT_FALSE(turns.Enter("a"));
  EXPECT_TRUE(turns.Enter("b"));
  EXPECT_EQ(turns.Of("a"), 2u);
  turns.Leave("a");
  EXPECT_TRUE(turns.Enter("a"));
  turns.Leave("b");
  EXPECT_EQ(turns.Of("b"), 0u);
}

TEST(DownloadTurns, OnlySoManyAtOnceAndConnectionsInTurn) {
  DownloadTurns turns(100, 2);
  Kept kept;
  for (const char* name : {"a1", "a2", "a3", "a4"}) turns.Take("a", kept.Named(name));
  turns.Take("b", kept.Named("b1"));
  EXPECT_THAT(kept.began, ElementsAre("a1", "a2"));
  for (int i = 0; i < 5; ++i) kept.EndOldest();
  EXPECT_THAT(kept.began, ElementsAre("a1", "a2", "a3", "b1", "a4"));
  turns.Take("c", kept.Named("c1"));
  EXPECT_EQ(kept.began.back(), "c1");
}

TEST(DownloadTurns, WorkThatEndsAtOnceDoesNotNest) {
  DownloadTurns turns(1, 1);
  Kept first;
  turns.Take("a", first.Named("first"));
  int depth = 0, deepest = 0, ran = 0;
  for (int i = 0; i < 100'000; ++i) {
    turns.Take(i % 2 == 0 ? "a" : "b", [&](const DownloadTurns::Done& done) {
      deepest = std::max(deepest, ++depth);
      ++ran;
      done();
      --depth;
    });
  }
  EXPECT_EQ(ran, 0);
  first.EndOldest();
  EXPECT_EQ(ran, 100'000);
  EXPECT_EQ(deepest, 1);
}

}  // namespace
}  // namespace atl
