// SPDX-License-Identifier: Apache-2.0
// Where blocking work runs. The engine never waits: appends, flushes, SQLite, hashing and aggregation are jobs on an
// Executor, and their completion comes back as an event.
#ifndef ATOLL_COMMON_BASE_EXECUTOR_H_
#define ATOLL_COMMON_BASE_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/ring.h"

namespace atl {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `work` once, later, never inside this call. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// A fixed number of threads over one first-in-first-out queue; with one thread, jobs run strictly in order.
// The destructor stops it.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(size_t threads);
  ~ThreadExecutor() override;
  void Post(std::function<void()> work) override ATOLL_EXCLUDES(mutex_);
  // Runs what is queued, then ends the threads. What is posted from now on is dropped, so that executors whose jobs
  // post to each other can be stopped one after the other before any of them is destroyed. Not to be called by a job.
  void Stop() ATOLL_EXCLUDES(mutex_);

 private:
  void Run();
  Mutex mutex_;
  CondVar wake_;
  Ring<std::function<void()>> queue_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

// Runs jobs when asked, in the caller's thread: for harnesses and the simulator. Not thread-safe.
class ManualExecutor final : public Executor {
 public:
  void Post(std::function<void()> work) override { queue_.push_back(std::move(work)); }
  size_t pending() const { return queue_.size(); }
  // Runs job number `index` of those pending (0 is the oldest). Requires index < pending().
  void RunOne(size_t index = 0);
  // Runs until nothing is pending, oldest first; returns how many ran.
  size_t RunAll();
  // Forgets what is pending, as the death of a process does.
  void DropAll() { queue_.clear(); }

 private:
  std::deque<std::function<void()>> queue_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_EXECUTOR_H_
