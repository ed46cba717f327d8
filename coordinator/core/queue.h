// SPDX-License-Identifier: Apache-2.0
// Decides which job gets which workers (docs/design.md section 6): by priority, then age. Every
// running job keeps its minimum; spare workers go to the highest priority below its maximum. A
// waiting job starts only when its whole minimum is available, so that no worker is idle in a job
// that cannot run. Several jobs without their minimum, each with workers that another one needs, could
// wait for each other. So the first job that can continue, or start, with the workers of later jobs gets
// them. In this order, jobs that keep their workers because they are ending are first. Pure.
#ifndef ATOLL_COORDINATOR_CORE_QUEUE_H_
#define ATOLL_COORDINATOR_CORE_QUEUE_H_

#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"

namespace atl {

struct QueuedJob {
  JobId job;
  int32_t priority = 0;
  uint64_t sequence = 0;
  uint32_t min = 1, max = 1;
  bool started = false;           // takes any number of workers
  std::vector<WorkerId> workers;  // alive and training it, or about to, by name
  uint32_t keep = 0;              // not taken by other jobs, even if `min` is less
};
struct FreeWorker {
  WorkerId worker;
  std::set<JobId> barred;  // jobs at which it failed
};
struct Move {
  WorkerId worker;
  JobId from, to;  // empty: none
  friend auto operator<=>(const Move&, const Move&) = default;
};
// The moves in execution order. `barred`: for workers with a job, the jobs that they may not get.
std::vector<Move> PlanMoves(std::vector<QueuedJob> jobs, std::vector<FreeWorker> free,
                            const std::map<WorkerId, std::set<JobId>>& barred);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_QUEUE_H_
