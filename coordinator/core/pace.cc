// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/pace.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {

uint32_t BalancedSteps(uint32_t inner_steps, Duration step, Duration fastest) {
  ATOLL_CHECK(inner_steps >= 1 && step.ns > 0 && fastest.ns > 0, "a pace is made of measured steps");
  // At most 10^6 steps of at most 3.6 x 10^12 ns: the product fits 63 bits.
  const int64_t steps = int64_t{inner_steps} * std::min(step, fastest).ns / step.ns;
  return static_cast<uint32_t>(std::max<int64_t>(1, steps));
}

bool WorthChanging(uint32_t present, uint32_t wanted) {
  const uint64_t apart = present > wanted ? present - wanted : wanted - present;
  return apart * 8 > present;
}

Duration ClockPace(Duration period, uint32_t inner_steps) { return Duration{period.ns / std::max(1u, inner_steps)}; }

uint64_t StepByNow(uint64_t step, Duration since, Duration pace, Duration most) {
  if (pace.ns <= 0 || since.ns < 0 || since > most) return step;
  return step + static_cast<uint64_t>((since.ns + pace.ns - 1) / pace.ns);
}

}  // namespace atl
