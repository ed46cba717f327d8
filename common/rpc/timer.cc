#include "common/rpc/timer.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <atomic>

namespace atl {

struct Timer::Shot {
  grpc::Alarm alarm;
  std::function<void()> work;
  std::atomic<bool> cancelled = false;
};

Timer::Timer() = default;
Timer::~Timer() { Cancel(); }

void Timer::Cancel() {
  if (shot_ == nullptr) return;
  shot_->cancelled = true;
  shot_->alarm.Cancel();
  shot_.reset();
}

void Timer::Set(Duration delay, std::function<void()> work) {
  Cancel();
  shot_ = std::make_shared<Shot>();
  shot_->work = std::move(work);
  // A fresh alarm each time: setting one again from inside its own callback would replace the function that runs.
  const gpr_timespec when = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(delay.ns, GPR_TIMESPAN));
  shot_->alarm.Set(when, [shot = shot_](bool fired) {
    if (fired && !shot->cancelled) shot->work();
  });
}

}  // namespace atl
