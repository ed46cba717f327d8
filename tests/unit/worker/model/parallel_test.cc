// SPDX-License-Identifier: Apache-2.0
#include "worker/model/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/arena.h"

namespace atl {
namespace {

class Parallel : public testing::Test {
 protected:
  Parallel() { SetTensorThreads(3); }
  ~Parallel() override { SetTensorThreads(1); }
};

TEST_F(Parallel, PartsCoverAllOnceOnAsManyThreads) {
  for (const int64_t count : {1, 2, 3, 10, 1000}) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<int> met(static_cast<size_t>(count));
    ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      for (int64_t i = begin; i < end; ++i) ++met[static_cast<size_t>(i)];
    });
    EXPECT_TRUE(std::all_of(met.begin(), met.end(), [](int times) { return times == 1; })) << count;
    EXPECT_EQ(threads.size(), static_cast<size_t>(std::min<int64_t>(count, 3))) << count;
  }
  ParallelFor(0, 1, [](int64_t, int64_t) { ADD_FAILURE() << "there is nothing to do"; });
}

TEST_F(Parallel, ThereAreNoMorePartsThanGrains) {
  std::atomic<int> parts = 0;
  ParallelFor(150, 100, [&](int64_t begin, int64_t end) {
    ++parts;
    EXPECT_EQ(end - begin, 75);
  });
  EXPECT_EQ(parts, 2);
  ParallelFor(100, 100, [&](int64_t begin, int64_t end) { EXPECT_EQ(end - begin, 100); });
}

TEST_F(Parallel, InsideAPartThereIsOneThread) {
  ParallelFor(3, 1, [&](int64_t, int64_t) {
    const std::thread::id here = std::this_thread::get_id();
    ParallelFor(100, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(end - begin, 100);
    });
  });
}

TEST_F(Parallel, ExceptionOfAPartIsRethrown) {
  std::string told;
  try {
    ParallelFor(3, 1, [](int64_t begin, int64_t) {
      if (begin == 0) return;
      std::rethrow_exception(std::make_exception_ptr(std::runtime_error("part " + std::to_string(begin))));
    });
  } catch (const std::runtime_error& e) {
    told = e.what();
  }
  EXPECT_EQ(told, "part 1");
}

}  // namespace
}  // namespace atl
