// SPDX-License-Identifier: Apache-2.0
// One-shot timers and a progress watchdog for transfers, on gRPC's own threads. Not for other rooms.
#ifndef ATOLL_COMMON_RPC_TIMER_H_
#define ATOLL_COMMON_RPC_TIMER_H_

#include <functional>
#include <memory>

#include "common/base/time.h"

namespace atl {

// Runs `work` once after `delay`, unless cancelled before. Not thread-safe. The destructor cancels; work that is
// already on its way may still run, so it must hold what it needs.
class Timer {
 public:
  Timer();
  ~Timer();
  void Set(Duration delay, std::function<void()> work);  // replaces what was set
  void Cancel();

 private:
  struct Shot;
  std::unique_ptr<Shot> shot_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TIMER_H_
