// SPDX-License-Identifier: Apache-2.0
// A parallel loop with a sequential part, such as a digest or sums that depend on the order.
#ifndef ATOLL_COMMON_BASE_ORDERED_LOOP_H_
#define ATOLL_COMMON_BASE_ORDERED_LOOP_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/spread.h"

namespace atl {

// Thread-safe. An object serves one loop.
class OrderedLoop {
 public:
  // A loop over `count` parts.
  explicit OrderedLoop(size_t count) : count_(count), done_(count) {}

  // Each thread of the loop calls Run once. Together these calls run work(part) once for each part, in
  // parallel, and the second callback once for each part, in order and one at a time: soon after the
  // part's work, while its result is still in a cache. The thread that completes the next part in order
  // runs the second callback. The loop is complete when every thread has returned from Run. Neither
  // callback may throw.
  template <typename Work, typename Behind>
  void Run(const Work& work, const Behind& behind) {
    for (size_t part = next_.fetch_add(1); part < count_; part = next_.fetch_add(1)) {
      work(part);
      for (auto due = AfterDone(part); due; due = AfterBehind()) behind(*due);
    }
  }

 private:
  // Returns the part for which this thread now runs the second callback, if any.
  std::optional<size_t> AfterDone(size_t part) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    done_[part] = true;
    return busy_ ? std::nullopt : Due();
  }
  std::optional<size_t> AfterBehind() ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++passed_;
    return Due();
  }
  std::optional<size_t> Due() ATOLL_REQUIRES(mutex_) {
    busy_ = passed_ < count_ && done_[passed_];
    return busy_ ? std::optional(passed_) : std::nullopt;
  }

  const size_t count_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  std::vector<bool> done_ ATOLL_GUARDED_BY(mutex_);
  size_t passed_ ATOLL_GUARDED_BY(mutex_) = 0;  // number of parts with both callbacks done
  bool busy_ ATOLL_GUARDED_BY(mutex_) = false;  // a thread runs the second callback
};

// Runs a complete OrderedLoop over `count` parts on up to `threads` threads, including the caller's.
template <typename Work, typename Behind>
void SpreadInOrder(size_t count, unsigned threads, const Work& work, const Behind& behind) {
  OrderedLoop loop(count);
  const size_t parts = std::min<size_t>(threads, count);
  Spread(parts, threads, [&](size_t, size_t) { loop.Run(work, behind); });
}

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_ORDERED_LOOP_H_
