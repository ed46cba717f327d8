// SPDX-License-Identifier: Apache-2.0
// How fast a job clock goes, for the time that is left: over the last minutes in which the job ran. Pure.
#ifndef ATOLL_COORDINATOR_ENGINE_CLOCK_RATE_H_
#define ATOLL_COORDINATOR_ENGINE_CLOCK_RATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/time.h"

namespace atl {

class ClockRate {
 public:
  // Told about once a second. Not running, or set back by a rollback: what was is forgotten. Time before the clock
  // first moves does not count, waits later on do.
  void Note(uint64_t step, bool running, Instant now);
  // Steps a second up to `step` now; 0: not known.
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
