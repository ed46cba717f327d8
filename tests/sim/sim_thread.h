// SPDX-License-Identifier: Apache-2.0
// A thread of a simulated process: runs jobs in order; after each job the disk is busy for some
// time.
#ifndef ATOLL_TESTS_SIM_SIM_THREAD_H_
#define ATOLL_TESTS_SIM_SIM_THREAD_H_

#include <algorithm>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "tests/support/manual_executor.h"

namespace atl {

struct SimThread {
  ManualExecutor jobs;
  Instant free_at{};

  // Runs the oldest job if there is one and the previous job is finished. The job takes less than
  // `longest`.
  bool RunOne(Instant now, Duration longest, Rng& random) {
    if (free_at > now || jobs.pending() == 0) return false;
    if (longest.ns > 0)
      free_at = now + Nanoseconds(static_cast<int64_t>(random.Below(static_cast<uint64_t>(longest.ns))));
    jobs.RunOne();
    return true;
  }
  // The time when the next job may run; kNever without a job.
  Instant Next(Instant now) const { return jobs.pending() == 0 ? kNever : std::max(free_at, now); }
  // The process is gone: drops the pending jobs.
  void End() {
    jobs.DropAll();
    free_at = {};
  }
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SIM_THREAD_H_
