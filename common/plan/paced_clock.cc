// SPDX-License-Identifier: Apache-2.0
#include "common/plan/paced_clock.h"

#include <algorithm>

namespace atl {

void PacedClock::SetOwnSteps(uint32_t own_steps) {
  const uint32_t wanted = std::clamp<uint32_t>(own_steps, 1, period_);
  rest_ = static_cast<uint32_t>(uint64_t{rest_} * wanted / own_);
  own_ = wanted;
}

uint32_t PacedClock::Advance() {
  const uint64_t sum = uint64_t{rest_} + period_;
  rest_ = static_cast<uint32_t>(sum % own_);
  return static_cast<uint32_t>(sum / own_);
}

uint64_t PacedClock::StepsFor(uint64_t clock_steps) const {
  // The smallest k with floor((rest + k H) / own) >= clock_steps. Whole periods are split off
  // first, to avoid overflow.
  const uint64_t periods = clock_steps / period_, left = clock_steps % period_;
  const uint64_t wanted = left * own_;
  return periods * own_ + (wanted > rest_ ? (wanted - rest_ + period_ - 1) / period_ : 0);
}

}  // namespace atl
