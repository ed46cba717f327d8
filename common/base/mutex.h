// SPDX-License-Identifier: Apache-2.0
// std::mutex with clang's thread-safety annotations. absl::Mutex is in a library without
// instrumentation, which hides its locks from the thread sanitizer. The project therefore uses only
// this mutex.
#ifndef ATOLL_COMMON_BASE_MUTEX_H_
#define ATOLL_COMMON_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/base/time.h"

#if defined(__clang__)
#define ATOLL_TSA_(x) __attribute__((x))
#else
#define ATOLL_TSA_(x)
#endif
#define ATOLL_CAPABILITY(x) ATOLL_TSA_(capability(x))
#define ATOLL_SCOPED_CAPABILITY ATOLL_TSA_(scoped_lockable)
#define ATOLL_GUARDED_BY(x) ATOLL_TSA_(guarded_by(x))
#define ATOLL_REQUIRES(...) ATOLL_TSA_(requires_capability(__VA_ARGS__))
#define ATOLL_EXCLUDES(...) ATOLL_TSA_(locks_excluded(__VA_ARGS__))
#define ATOLL_ACQUIRE(...) ATOLL_TSA_(acquire_capability(__VA_ARGS__))
#define ATOLL_RELEASE(...) ATOLL_TSA_(release_capability(__VA_ARGS__))
#define ATOLL_NO_THREAD_SAFETY_ANALYSIS ATOLL_TSA_(no_thread_safety_analysis)

namespace atl {

class ATOLL_CAPABILITY("mutex") Mutex {
 public:
  void Lock() ATOLL_ACQUIRE() { mutex_.lock(); }
  void Unlock() ATOLL_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ATOLL_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ATOLL_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ATOLL_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Both waits release the mutex meanwhile. They return on notification, at the limit, or for no reason: callers loop.
class CondVar {
 public:
  void Wait(Mutex& mutex) ATOLL_REQUIRES(mutex) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // Returns false when `limit` passed without a notification.
  bool WaitFor(Mutex& mutex, Duration limit) ATOLL_REQUIRES(mutex) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const auto result = condition_.wait_for(lock, std::chrono::nanoseconds(limit.ns));
    lock.release();
    return result == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_MUTEX_H_
