// SPDX-License-Identifier: Apache-2.0
// One-shot timers on gRPC's threads. Not for other rooms.
#ifndef ATOLL_COMMON_RPC_TIMER_H_
#define ATOLL_COMMON_RPC_TIMER_H_

#include <functional>
#include <memory>

#include "common/base/time.h"

namespace atl {

// Runs `work` once after `delay`, unless cancelled before. Not thread-safe. The destructor cancels. After a
// cancel, `work` may still be running on another thread, so it must own the data that it uses.
class Timer {
 public:
  Timer();
  ~Timer();
  void Set(Duration delay, std::function<void()> work);  // replaces the previous setting
  void Cancel();

 private:
  struct Shot;
  std::unique_ptr<Shot> shot_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TIMER_H_
