// SPDX-License-Identifier: Apache-2.0
// Lets a loop sleep until Notify is called or an instant has passed.
#ifndef ATOLL_WORKER_DAEMON_EVENT_GATE_H_
#define ATOLL_WORKER_DAEMON_EVENT_GATE_H_

#include <algorithm>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Thread-safe. A Notify before the wait is not lost: the next WaitUntil returns at once.
class EventGate {
 public:
  void Notify() ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    knocked_ = true;
    wake_.NotifyAll();
  }
  // True after a Notify. False at `until`, or after kLongest, so that a jump of the clock cannot block it for long.
  bool WaitUntil(const Clock& clock, Instant until) ATOLL_EXCLUDES(mutex_) {
    constexpr Duration kLongest = Seconds(1);
    MutexLock lock(mutex_);
    while (!knocked_) {
      const Instant now = clock.Now();
      if (until <= now) return false;
      const Duration left = until == kNever ? kLongest : std::min(until - now, kLongest);
      if (!wake_.WaitFor(mutex_, left) && !knocked_) return false;
    }
    knocked_ = false;
    return true;
  }

 private:
  Mutex mutex_;
  CondVar wake_;
  bool knocked_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_EVENT_GATE_H_
