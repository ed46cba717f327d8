#include "common/base/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace atl {
namespace {

TEST(SpreadTest, EveryPlaceIsWalkedOnceInAsManyPartsAsThereAreThreads) {
  for (const size_t count : std::vector<size_t>{0, 1, 2, 7, 100}) {
    for (const unsigned threads : {0u, 1u, 2u, 3u, 8u}) {
      std::vector<std::atomic<int>> walked(count);
      std::atomic<size_t> parts = 0;
      Spread(count, threads, [&](size_t first, size_t last) {
        ++parts;
        EXPECT_LE(last - first, count / std::max<size_t>(1, threads) + 1) << "all parts are about as long";
        for (size_t i = first; i < last; ++i) ++walked[i];
      });
      EXPECT_EQ(parts, std::max<size_t>(1, std::min<size_t>(threads, count)));
      for (const auto& place : walked) EXPECT_EQ(place, 1) << count << " " << threads;
    }
  }
}

}  // namespace
}  // namespace atl
