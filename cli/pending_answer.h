// SPDX-License-Identifier: Apache-2.0
// An answer from a transport thread, and the wait for it.
#ifndef ATOLL_CLI_PENDING_ANSWER_H_
#define ATOLL_CLI_PENDING_ANSWER_H_

#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl::cli {

// Shared with the callback, which may outlive the wait. Thread-safe.
template <typename T>
class PendingAnswer {
 public:
  void Set(T answer) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    answer_ = std::move(answer);
    given_.NotifyAll();
  }
  // Returns false when the answer is missing at the deadline.
  bool WaitUntil(const Clock& clock, std::optional<Instant> deadline) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!answer_) {
      if (!deadline) {
        given_.Wait(mutex_);
        continue;
      }
      const Duration left = *deadline - clock.Now();
      if (left <= Duration{}) return false;
      (void)given_.WaitFor(mutex_, left);
    }
    return true;
  }
  // Waits without a time limit.
  T Wait() ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!answer_) given_.Wait(mutex_);
    return *answer_;
  }

 private:
  Mutex mutex_;
  CondVar given_;
  std::optional<T> answer_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl::cli

#endif  // ATOLL_CLI_PENDING_ANSWER_H_
