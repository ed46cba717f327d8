// SPDX-License-Identifier: Apache-2.0
// An interruptible sleep.
#ifndef ATOLL_COMMON_BASE_STOP_WAIT_H_
#define ATOLL_COMMON_BASE_STOP_WAIT_H_

#include <stop_token>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Waits for `limit`; returns at once when `stop` is or was requested, and perhaps earlier for no
// reason.
inline void WaitForStop(const std::stop_token& stop, Duration limit) {
  Mutex mutex;
  CondVar wake;
  const std::stop_callback on_stop(stop, [&] {
    const MutexLock lock(mutex);  // prevents a lost wakeup between the check and the wait
    wake.NotifyAll();
  });
  const MutexLock lock(mutex);
  if (!stop.stop_requested()) wake.WaitFor(mutex, limit);
}

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_STOP_WAIT_H_
