// SPDX-License-Identifier: Apache-2.0
// The speed of a job clock over the last minutes in which the job ran, used to estimate the time
// left. Pure.
#ifndef ATOLL_COORDINATOR_ENGINE_CLOCK_RATE_H_
#define ATOLL_COORDINATOR_ENGINE_CLOCK_RATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/time.h"

namespace atl {

class ClockRate {
 public:
  // Notes the job clock; called about once a second. Forgets all earlier notes when the job does not run
  // or a rollback sets its clock back. Time before the clock first moves does not count; later waits do.
  void Note(uint64_t step, bool running, Instant now);
  // Steps per second up to `step`; 0 if unknown.
  double PerSecond(uint64_t step, Instant now) const;

 private:
  static constexpr Duration kInterval = Seconds(20);
  static constexpr size_t kMarks = 46;  // a quarter of an hour
  struct Mark {
    uint64_t step = 0;
    Instant at;
  };
  std::deque<Mark> marks_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_CLOCK_RATE_H_
