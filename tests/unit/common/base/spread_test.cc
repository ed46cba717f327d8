// SPDX-License-Identifier: Apache-2.0
#include "common/base/spread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

// Sanitizers take the address space for themselves.
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATOLL_TEST_SANITIZED
#endif
#endif

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

#ifndef ATOLL_TEST_SANITIZED
// Ends with 0 when all was walked once, in a process that has no room for another thread's stack.
[[noreturn]] void WalkWithoutThreads() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t room = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (uint64_t{1} << 20);
  const rlimit limit{room, room};
  pthread_attr_t large;  // no stack that another thread has left is enough
  if (pthread_attr_init(&large) != 0 || pthread_attr_setstacksize(&large, size_t{64} << 20) != 0 ||
      pthread_setattr_default_np(&large) != 0)
    std::exit(2);
  if (pages == 0 || setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
  std::array<int, 10> walked{};
  std::array<std::thread::id, 10> by{};
  Spread(walked.size(), 3, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) ++walked[i], by[i] = std::this_thread::get_id();
  });
  const bool once = std::ranges::all_of(walked, [](int times) { return times == 1; });
  const bool here = std::ranges::all_of(by, [](std::thread::id id) { return id == std::this_thread::get_id(); });
  std::exit(!once ? 1 : !here ? 3 : 0);
}

TEST(SpreadTest, WhereThereAreNoMoreThreadsTheCallerWalksAll) {
  EXPECT_EXIT(WalkWithoutThreads(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace atl
