// SPDX-License-Identifier: Apache-2.0
// The job's clock in an assignment, and its estimate for the time when the joiner has fetched
// everything (ADR 0011). Pure.
#ifndef ATOLL_WORKER_CORE_JOINER_CLOCK_H_
#define ATOLL_WORKER_CORE_JOINER_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "common/base/time.h"

namespace atl::worker {

struct JoinerClock {
  uint64_t step = 0;  // of the job, at `at`
  Instant at{};
  Duration pace{};  // time of one step; 0: the clock is stopped

  // The estimated clock at `now`: at least `step` and `heard`, the newest clock heard since, and less than a `period`
  // after both, like the job's clock. Unless these are at `stop` already (0: none), it is below: a worker at the stop
  // step sends nothing more. Rounded up: a send shortly after all the others is too late, one shortly before is not.
  uint64_t ByNow(Instant now, uint64_t heard, uint32_t period, uint64_t stop) const {
    const uint64_t least = std::max(step, heard);
    if (pace.ns <= 0 || now <= at) return least;
    const auto passed = static_cast<uint64_t>(((now - at).ns + pace.ns - 1) / pace.ns);
    const uint64_t clock = std::clamp(step + passed, least, least + period - 1);
    return stop > 0 ? std::min(clock, std::max(least, stop - 1)) : clock;
  }
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_JOINER_CLOCK_H_
