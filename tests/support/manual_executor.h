// SPDX-License-Identifier: Apache-2.0
#ifndef ATOLL_TESTS_SUPPORT_MANUAL_EXECUTOR_H_
#define ATOLL_TESTS_SUPPORT_MANUAL_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/base/executor.h"

namespace atl {

// Runs jobs on request, on the caller's thread: for harnesses and the simulator. Not thread-safe.
class ManualExecutor final : public Executor {
 public:
  void Post(std::function<void()> work) override { queue_.push_back(std::move(work)); }
  size_t pending() const { return queue_.size(); }
  // Runs the pending job number `index` (0 is the oldest). Requires index < pending().
  void RunOne(size_t index = 0) {
    ATOLL_CHECK(index < queue_.size(), "no such pending job");
    const auto at = queue_.begin() + static_cast<std::ptrdiff_t>(index);
    const std::function<void()> work = std::move(*at);
    queue_.erase(at);
    work();
  }
  // Runs pending jobs, oldest first, until none is left. Returns the number of jobs run.
  size_t RunAll() {
    size_t count = 0;
    for (; !queue_.empty(); ++count) RunOne();
    return count;
  }
  // Drops all pending jobs, as the death of a process does.
  void DropAll() { queue_.clear(); }

 private:
  std::deque<std::function<void()>> queue_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_MANUAL_EXECUTOR_H_
