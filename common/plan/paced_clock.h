// SPDX-License-Identifier: Apache-2.0
// Job clock of a worker that takes fewer than H steps a period: `own_steps` of its steps advance
// the clock by H, spread as evenly as whole steps allow (Bresenham). Pure, no floating point.
#ifndef ATOLL_COMMON_PLAN_PACED_CLOCK_H_
#define ATOLL_COMMON_PLAN_PACED_CLOCK_H_

#include <cstdint>

namespace atl {

constexpr uint32_t kLongestPeriodSteps = 1'000'000;  // bound on sync.inner_steps; more are refused

class PacedClock {
 public:
  PacedClock() = default;
  // Requires period_steps (H) >= 1. Starts at the full pace.
  explicit PacedClock(uint32_t period_steps) : period_(period_steps), own_(period_steps) {}

  // Takes effect at the next step. own_steps is clamped to 1 and H.
  void SetOwnSteps(uint32_t own_steps);
  uint32_t own_steps() const { return own_; }
  // Call once for each own step. Returns by how much the job clock advances: 1 at the full pace, at most H.
  uint32_t Advance();
  // Number of steps until the clock has advanced by at least `clock_steps`.
  uint64_t StepsFor(uint64_t clock_steps) const;

 private:
  uint32_t period_ = 1, own_ = 1;
  uint32_t rest_ = 0;  // clock steps not yet counted, in units of 1 / own_; below own_
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_PACED_CLOCK_H_
