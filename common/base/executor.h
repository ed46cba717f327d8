// SPDX-License-Identifier: Apache-2.0
// Executors run blocking work. The engine never blocks: appends, flushes, SQLite, hashing and
// aggregation are jobs on an Executor, and their completion returns as an event.
#ifndef ATOLL_COMMON_BASE_EXECUTOR_H_
#define ATOLL_COMMON_BASE_EXECUTOR_H_

#include <cstddef>
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
  // Runs `work` once, later, never inside this call. A stopped ThreadExecutor drops it. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// A fixed number of threads with one first-in-first-out queue. With one thread, jobs run strictly
// in order. The destructor calls Stop.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(size_t threads);
  ~ThreadExecutor() override;
  void Post(std::function<void()> work) override ATOLL_EXCLUDES(mutex_);
  // Runs the queued jobs, then ends the threads and returns. Jobs that are posted after this call has begun, also by
  // the queued jobs, are dropped, so that executors with jobs that post to each other can be stopped one after
  // another before any of them is destroyed. A job must not call this.
  void Stop() ATOLL_EXCLUDES(mutex_);

 private:
  void Run();
  Mutex mutex_;
  CondVar wake_;
  Ring<std::function<void()>> queue_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_EXECUTOR_H_
