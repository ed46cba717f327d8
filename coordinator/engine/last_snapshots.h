// SPDX-License-Identifier: Apache-2.0
// What a coordinator that ends in order writes last: a snapshot of every fragment of which the log holds committed
// rounds that no snapshot has, so that the next start recomputes nothing (DataPlane::SnapshotAll).
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

// The compute executor changes it until it is done; `go_on`, `fragments` and `loading` may be read
// meanwhile.
struct LastSnapshots {
  std::atomic<bool> go_on = true;  // once false, the fragment that is being written is the last
  std::vector<std::pair<std::shared_ptr<JobData>, FragmentIndex>> fragments;  // of all jobs in memory
  std::vector<JobId> loading;  // what was to be read again of them is again
  size_t next = 0;
  // Of them. One whose round was merged and not committed is left as it is, and so are all behind one that fails.
  size_t written = 0;
  absl::Status why;  // of the one that failed
  std::function<void()> done;
};

// Has them written, and says so and what is missing; blocks until then. `go_on` is asked every tenth of a second. Over
// executors with threads, when the engine has turned for the last time.
void WriteLastSnapshots(DataPlane& data, Log& log, const std::function<bool()>& go_on);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LAST_SNAPSHOTS_H_
