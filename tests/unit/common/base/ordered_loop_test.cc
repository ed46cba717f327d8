// SPDX-License-Identifier: Apache-2.0
#include "common/base/ordered_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <vector>

namespace atl {
namespace {

TEST(OrderedLoop, EveryPartIsWorkedOnOnceAndPassedInOrder) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{4}, size_t{1000}}) {
      std::vector<std::atomic<int>> worked(count);
      std::vector<size_t> passed;
      SpreadInOrder(
          count, threads, [&](size_t part) { ++worked[part]; },
          [&](size_t part) {
            EXPECT_EQ(worked[part], 1) << part;
            passed.push_back(part);
          });
      std::vector<size_t> all(count);
      std::iota(all.begin(), all.end(), size_t{0});
      EXPECT_EQ(passed, all) << threads << " threads";
      for (const auto& times : worked) EXPECT_EQ(times, 1);
    }
  }
}

// The second part ends before the first and waits; the thread that ends the first part passes on
// both.
TEST(OrderedLoop, APartThatIsEarlyWaitsForThoseBeforeIt) {
  std::latch second(1);
  std::vector<size_t> passed;
  SpreadInOrder(
      2, 2,
      [&](size_t part) {
        if (part == 0) second.wait();
        if (part == 1) second.count_down();
      },
      [&](size_t part) { passed.push_back(part); });
  EXPECT_EQ(passed, (std::vector<size_t>{0, 1}));
}

}  // namespace
}  // namespace atl
