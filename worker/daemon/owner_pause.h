// SPDX-License-Identifier: Apache-2.0
// `atoll-worker pause` and `resume`: the owner of a machine takes it back for a while. The request is a file in
// the worker's cache: a restarted worker stays paused, and the command needs no connection to the process. A
// paused worker leaves in order, as on SIGTERM, restarts its program (which frees all device memory) and waits.
#ifndef ATOLL_WORKER_DAEMON_OWNER_PAUSE_H_
#define ATOLL_WORKER_DAEMON_OWNER_PAUSE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/config/options.h"

namespace atl {

// The end of a pause in Unix seconds; kUntilResumed if it has none. Nothing: not paused, or the pause is over.
constexpr int64_t kUntilResumed = INT64_MAX;
std::optional<int64_t> PausedUntil(const std::string& cache_dir, int64_t now_s);

// Marks, while it exists, that a worker with this cache runs, with the name of the newest such
// worker, for `pause`. Any number may exist at once.
class RunningMark {
 public:
  RunningMark(const std::string& cache_dir, const std::string& name);
  ~RunningMark();
  RunningMark(const RunningMark&) = delete;
  RunningMark& operator=(const RunningMark&) = delete;
  // No other worker runs with the cache, as far as this mark could be written. Of two that start at once, both may see
  // the other.
  bool is_alone() const;

 private:
  int fd_ = -1;
};
// The name of a running worker, empty if the mark is unreadable. Nothing: no worker runs.
std::optional<std::string> RunningWorker(const std::string& cache_dir);

// Executes the command and prints its effect. Errors name the cache folder.
absl::Status RunOwnerCommand(const OwnerCommand& command, const Clock& clock, std::ostream& out);

// Returns true at once if the worker is not paused, otherwise when the pause ends. Returns false if
// a signal of StopSignals (common/base/process.h) ends the program first. Checks once a second.
bool WaitWhilePaused(const WorkerOptions& options, const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_OWNER_PAUSE_H_
