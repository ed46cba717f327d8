// SPDX-License-Identifier: Apache-2.0
// The clock of one of several machines that share a time.
#ifndef ATOLL_TESTS_SIM_MACHINE_CLOCK_H_
#define ATOLL_TESTS_SIM_MACHINE_CLOCK_H_

#include <algorithm>

#include "common/base/time.h"
#include "tests/support/manual_clock.h"

namespace atl {

// The shared clock. While a machine takes a step, its clock shows the end of the step.
class MachineClock final : public Clock {
 public:
  explicit MachineClock(const ManualClock& shared) : shared_(shared) {}
  Instant Now() const override { return std::max(shared_.Now(), busy_until_); }
  int64_t WallNanos() const override { return shared_.WallNanos(); }
  void Spend(Duration d) { busy_until_ = Now() + d; }
  Instant busy_until() const { return busy_until_; }
  bool busy() const { return busy_until_ > shared_.Now(); }

 private:
  const ManualClock& shared_;
  Instant busy_until_{};
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_MACHINE_CLOCK_H_
