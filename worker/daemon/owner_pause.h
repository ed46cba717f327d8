// SPDX-License-Identifier: Apache-2.0
// `atoll-worker pause` and `resume`: the owner of a machine takes it back for a while. A file in the worker's cache
// says so, hence a worker that is restarted stays paused, and nothing needs to reach the process. A paused worker
// leaves in order, as on SIGTERM, starts its program anew (which frees the device to the last byte) and waits.
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

// The end of a pause in seconds since 1970; kUntilResumed: none is set. Nothing: not paused, or the end is over.
constexpr int64_t kUntilResumed = INT64_MAX;
std::optional<int64_t> PausedUntil(const std::string& cache_dir, int64_t now_s);

// Says that a worker with this cache runs, as long as it lives, and the name of the newest such, so that `pause` can
// tell. Any number may at once.
class RunningMark {
 public:
  RunningMark(const std::string& cache_dir, const std::string& name);
  ~RunningMark();
  RunningMark(const RunningMark&) = delete;
  RunningMark& operator=(const RunningMark&) = delete;

 private:
  int fd_ = -1;
};
// Its name, which is empty where the mark cannot be read. Nothing: none runs.
std::optional<std::string> RunningWorker(const std::string& cache_dir);

// Does the command and prints what follows from it. Errors name the cache folder.
absl::Status RunOwnerCommand(const OwnerCommand& command, const Clock& clock, std::ostream& out);

// Returns true at once when the worker is not paused, otherwise when the pause is over; false when a signal of
// StopSignals (common/base/process.h) ends the program first. Looks once a second.
bool WaitWhilePaused(const WorkerOptions& options, const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_OWNER_PAUSE_H_
