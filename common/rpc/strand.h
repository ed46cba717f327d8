// SPDX-License-Identifier: Apache-2.0
// Runs jobs one at a time and in order, on the thread that posts a job while none runs. Jobs of one
// strand share state without a lock. A job posted by a job runs after it. Jobs must not block. A
// job that fits into Job allocates nothing.
//
// Each job pins the owner, under the strand's lock. That lock also orders an owner that gRPC passes
// from its creating thread to its reacting threads: a thread sanitizer cannot see gRPC's own
// ordering, because Debian's library is built without it.
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

  // Runs `job` before it returns, or, if another job runs, leaves it to that job's thread. `owner` has this
  // strand as a member and is held by a shared pointer; the job keeps it alive until it has run.
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

  // Makes all writes of this thread to the owner visible to every job. For an owner that is
  // initialised outside of the strand: call last, before others can post.
  void Open() ATOLL_EXCLUDES(mutex_) { MutexLock lock(mutex_); }

 private:
  struct Pinned {
    std::shared_ptr<const void> owner;
    Job job;  // destroyed first
  };
  void Drain() ATOLL_EXCLUDES(mutex_) {
    for (;;) {
      // Held until after the lock is released: it may own the owner of this strand.
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
