// SPDX-License-Identifier: Apache-2.0
// A loop that several threads share, with a part of it that goes in order: a digest, or sums that depend on it.
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

// Thread-safe; for one loop.
class OrderedLoop {
 public:
  // Of `count` parts.
  explicit OrderedLoop(size_t count) : count_(count), done_(count) {}

  // For each of the threads: calls work(part) for every part that no other one runs it for, and behind(part) for each
  // part in order, one at a time, soon after its work, while what that left lies in a cache: by the thread that ends a
  // part before which nothing is missing. All is done when every thread has returned. Neither may throw.
  template <typename Work, typename Behind>
  void Run(const Work& work, const Behind& behind) {
    for (size_t part = next_.fetch_add(1); part < count_; part = next_.fetch_add(1)) {
      work(part);
      for (auto due = AfterDone(part); due; due = AfterBehind()) behind(*due);
    }
  }

 private:
  // The part that this thread is to call behind() for now, if any.
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
  size_t passed_ ATOLL_GUARDED_BY(mutex_) = 0;  // parts behind which it was called
  bool busy_ ATOLL_GUARDED_BY(mutex_) = false;  // a thread is at it
};

// One on up to `threads` threads, the caller's among them.
template <typename Work, typename Behind>
void SpreadInOrder(size_t count, unsigned threads, const Work& work, const Behind& behind) {
  OrderedLoop loop(count);
  const size_t parts = std::min<size_t>(threads, count);
  Spread(parts, threads, [&](size_t, size_t) { loop.Run(work, behind); });
}

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_ORDERED_LOOP_H_
