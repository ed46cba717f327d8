// SPDX-License-Identifier: Apache-2.0
// Rank 0's control of its island's processes: starts the followers unless a launcher does, connects
// to them, detects their end, and ends them.
#ifndef ATOLL_WORKER_DAEMON_ISLAND_CREW_H_
#define ATOLL_WORKER_DAEMON_ISLAND_CREW_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "worker/island/gpu_island.h"

namespace atl {

class IslandCrew {
 public:
  // Blocks until all ranks, and their GPUs if any, are connected; `device` is this rank's. Started
  // followers run this program with options.arguments and get their rank from the environment.
  // Cancelled if one of StopSignals arrives; otherwise an error with the reason, such as the ranks
  // that are missing or have ended. `device`, `clock` and `log` outlive the crew.
  static absl::StatusOr<std::unique_ptr<IslandCrew>> Muster(const IslandOptions& options, Device& device,
                                                            const std::string& version, const Clock& clock, Log& log);
  // Orders the followers to leave, and kills started ones that still run after five seconds.
  ~IslandCrew();
  IslandCrew(const IslandCrew&) = delete;
  IslandCrew& operator=(const IslandCrew&) = delete;

  // For the train thread.
  IslandWays ways() { return {*island_, gpus_ != nullptr ? static_cast<Island&>(*gpus_) : *island_}; }
  // Not OK once a rank has ended (which one and, if this process started it, how) or the island is broken. Also
  // sends the followers a sign of life every ten seconds, without which they consider this rank hung. Call it about
  // every second, from one thread.
  absl::Status Look() ATOLL_EXCLUDES(mutex_);
  // The cause for which the island is broken, with killed processes; otherwise as Look. Call it after all exchanges.
  absl::Status Cause() ATOLL_EXCLUDES(mutex_);

 private:
  struct Follower {
    uint32_t rank = 0;
    pid_t process = 0;
    std::string end;      // how it ended; empty while it runs
    bool killed = false;  // by a signal
  };
  IslandCrew(const Clock& clock, Log& log) : clock_(clock), log_(log) {}
  absl::Status Start(const IslandPlace& place, std::vector<std::string> arguments) ATOLL_EXCLUDES(mutex_);
  // Records processes that have ended; returns an error that describes the first of them.
  absl::Status Reap() ATOLL_EXCLUDES(mutex_);
  bool AllEnded() ATOLL_EXCLUDES(mutex_);

  const Clock& clock_;
  Log& log_;
  Mutex mutex_;
  std::vector<Follower> followers_ ATOLL_GUARDED_BY(mutex_);  // started by this process
  std::unique_ptr<TcpIsland> island_;
  std::unique_ptr<GpuIsland> gpus_;  // null: values go over TCP too
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ISLAND_CREW_H_
