// SPDX-License-Identifier: Apache-2.0
// The last writes of a coordinator that shuts down: a snapshot of every fragment whose log holds committed
// rounds that no snapshot has. The next start then recomputes nothing (DataPlane::SnapshotAll).
#ifndef ATOLL_COORDINATOR_ENGINE_LAST_SNAPSHOTS_H_
#define ATOLL_COORDINATOR_ENGINE_LAST_SNAPSHOTS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace atl {

class DataPlane;  // data_plane.h
struct JobData;   // job_data.h

// Owned by the prepare executor until `done` runs. Meanwhile other threads may set `go_on`, and
// read `fragments` and `loading`.
struct LastSnapshots {
  std::atomic<bool> go_on = true;  // set to false: the fragment being written is the last
  std::vector<std::pair<std::shared_ptr<JobData>, FragmentIndex>> fragments;  // to write, of all jobs in memory
  std::vector<JobId> loading;  // jobs being loaded: the next start loads them again
  size_t next = 0;
  // Outcome over `fragments`: the number written. Skipped: a fragment whose round was merged and
  // not committed, and all after a failed one or after `go_on` is false.
  size_t written = 0;
  absl::Status why;  // error of the failed one
  std::function<void()> done;
};

// Writes the last snapshots and logs the missing ones; blocks until then. Calls `go_on` every tenth of a second:
// once it is false, no further snapshot begins. Needs executors with threads, after the engine's last turn.
void WriteLastSnapshots(DataPlane& data, Log& log, const std::function<bool()>& go_on);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LAST_SNAPSHOTS_H_
