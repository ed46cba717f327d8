// SPDX-License-Identifier: Apache-2.0
// How a worker that takes fewer steps a period than H keeps the job clock: `own_steps` of its steps carry the clock on
// by H, spread as evenly as whole steps allow (Bresenham). Pure, no floating point.
#ifndef ATOLL_COMMON_PLAN_PACED_CLOCK_H_
#define ATOLL_COMMON_PLAN_PACED_CLOCK_H_

#include <cstdint>

namespace atl {

constexpr uint32_t kLongestPeriodSteps = 1'000'000;  // of sync.inner_steps; more are refused

class PacedClock {
 public:
  PacedClock() = default;
  // Requires period_steps (H) >= 1. Begins at the full pace.
  explicit PacedClock(uint32_t period_steps) : period_(period_steps), own_(period_steps) {}

  // From the next step on; own_steps is brought within 1 and H.
  void SetOwnSteps(uint32_t own_steps);
  uint32_t own_steps() const { return own_; }
  // A step was taken: how far the clock goes on, 1 at the full pace, at most H.
  uint32_t Advance();
  // Steps to take until the clock has gone on by at least `clock_steps`.
  uint64_t StepsFor(uint64_t clock_steps) const;

 private:
  uint32_t period_ = 1, own_ = 1;
  uint32_t rest_ = 0;  // clock steps not given yet, in 1 / own_; below own_
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_PACED_CLOCK_H_
