// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/clock_rate.h"

namespace atl {

void ClockRate::Note(uint64_t step, bool running, Instant now) {
  const bool stands = marks_.size() == 1 && step == marks_.front().step;
  if (!running || stands || (!marks_.empty() && step < marks_.back().step)) marks_.clear();
  if (!running) return;
  if (marks_.empty() || now - marks_.back().at >= kInterval) marks_.push_back({step, now});
  if (marks_.size() > kMarks) marks_.pop_front();
}

double ClockRate::PerSecond(uint64_t step, Instant now) const {
  if (marks_.empty() || step <= marks_.front().step || now <= marks_.front().at) return 0;
  return static_cast<double>(step - marks_.front().step) / ToSeconds(now - marks_.front().at);
}

}  // namespace atl
