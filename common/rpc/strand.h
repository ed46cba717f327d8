// Runs jobs one at a time and in order, on whichever thread posts while none runs: the state of a transfer is touched
// by one job at a time without a lock. A job posted from inside a job runs after it. Jobs must not block.
#ifndef ATOLL_COMMON_RPC_STRAND_H_
#define ATOLL_COMMON_RPC_STRAND_H_

#include <deque>
#include <functional>

#include "common/base/mutex.h"

namespace atl {

// Thread-safe. Jobs hold what keeps the strand itself alive.
class Strand {
 public:
  void Post(std::function<void()> job) ATOLL_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      jobs_.push_back(std::move(job));
      if (running_) return;
      running_ = true;
    }
    Drain();
  }

 private:
  void Drain() ATOLL_EXCLUDES(mutex_) {
    for (;;) {
      // Held until the lock is released again: it may own what owns this strand.
      std::function<void()> job;
      {
        MutexLock lock(mutex_);
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
      MutexLock lock(mutex_);
      if (!jobs_.empty()) continue;
      running_ = false;
      return;
    }
  }

  Mutex mutex_;
  std::deque<std::function<void()>> jobs_ ATOLL_GUARDED_BY(mutex_);
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_STRAND_H_
