// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/timer.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <atomic>

namespace atl {
namespace {

// The callback's data. The alarm, which holds the callback, is stored separately, so that neither
// owns itself.
struct Work {
  std::function<void()> run;
  std::atomic<bool> cancelled = false;
};

}  // namespace

struct Timer::Shot {
  grpc::Alarm alarm;
  std::shared_ptr<Work> work = std::make_shared<Work>();
};

Timer::Timer() = default;
Timer::~Timer() { Cancel(); }

void Timer::Cancel() {
  if (shot_ == nullptr) return;
  shot_->work->cancelled = true;
  shot_->alarm.Cancel();
  shot_.reset();
}

void Timer::Set(Duration delay, std::function<void()> work) {
  Cancel();
  shot_ = std::make_unique<Shot>();
  shot_->work->run = std::move(work);
  // A new alarm each time: resetting an alarm inside its own callback would replace the running
  // function.
  const gpr_timespec when = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(delay.ns, GPR_TIMESPAN));
  shot_->alarm.Set(when, [held = shot_->work](bool fired) {
    if (fired && !held->cancelled) held->run();
  });
}

}  // namespace atl
