// SPDX-License-Identifier: Apache-2.0
// Runs jobs one at a time and in order, on whichever thread posts while none runs: the state of a transfer is touched
// by one job at a time without a lock. A job posted from inside a job runs after it. Jobs must not block. A job that
// holds no more than Job has room for takes nothing from the heap.
//
// The owner is pinned by each of its jobs. It is pinned under the strand's lock, so that an owner which gRPC hands from
// the thread that made it to the threads that react is ordered by a lock of ours too: gRPC's own is one that a thread
// sanitizer cannot see (Debian's library is not built for it).
#ifndef ATOLL_COMMON_RPC_STRAND_H_
#define ATOLL_COMMON_RPC_STRAND_H_

#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/ring.h"
#include "common/base/small_function.h"

namespace atl {

// Thread-safe.
class Strand {
 public:
  using Job = SmallFunction<void(), 64>;

  // Runs `job` here; `owner`, who holds this strand and is held by a shared pointer, lives until it has run.
  template <typename Owner>
  void Post(Owner& owner, Job job) ATOLL_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      jobs_.push_back({owner.shared_from_this(), std::move(job)});
      if (running_) return;
      running_ = true;
    }
    Drain();
  }

  // What this thread has written to the owner until now is seen by every job. For an owner that is made ready off the
  // strand: called last, before others can post.
  void Open() ATOLL_EXCLUDES(mutex_) { MutexLock lock(mutex_); }

 private:
  struct Pinned {
    std::shared_ptr<const void> owner;
    Job job;  // goes first
  };
  void Drain() ATOLL_EXCLUDES(mutex_) {
    for (;;) {
      // Held until the lock is released again: it may own what owns this strand.
      Pinned next;
      {
        MutexLock lock(mutex_);
        next = jobs_.Take();
      }
      next.job();
      MutexLock lock(mutex_);
      if (!jobs_.empty()) continue;
      running_ = false;
      return;
    }
  }

  Mutex mutex_;
  Ring<Pinned> jobs_ ATOLL_GUARDED_BY(mutex_);
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_STRAND_H_
