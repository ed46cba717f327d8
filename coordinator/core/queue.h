// SPDX-License-Identifier: Apache-2.0
// Which job gets which workers (docs/design.md section 6): priority, then age. Every running job keeps its minimum;
// spare workers go to the highest priority below its maximum. A job that waits starts only when its whole minimum can
// be had, so that no worker stands idle in a job that cannot run. Jobs that lack their minimum, each with workers that
// another of them needs, would wait for each other: the first that can go on, or start, with those of later jobs
// gets them. Jobs that keep theirs, since they end, come first there. Pure.
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
  bool started = false;           // takes whatever there is
  std::vector<WorkerId> workers;  // alive and training it or on the way there, by name
  uint32_t keep = 0;              // others get none of so many, even where `min` is less
};
struct FreeWorker {
  WorkerId worker;
  std::set<JobId> barred;  // it failed at these
};
struct Move {
  WorkerId worker;
  JobId from, to;  // empty: from or to nowhere
  friend auto operator<=>(const Move&, const Move&) = default;
};
// In the order in which they are to be carried out. `barred` holds, for workers that have a job, the jobs they may not
// get.
std::vector<Move> PlanMoves(std::vector<QueuedJob> jobs, std::vector<FreeWorker> free,
                            const std::map<WorkerId, std::set<JobId>>& barred);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_QUEUE_H_
