// SPDX-License-Identifier: Apache-2.0
// Rank 0's side of its island's processes: starts the followers where no launcher does, meets them, notices their end,
// and ends them.
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
  // Blocks until all ranks have met, and their GPUs where they have some; `device` is this rank's. Followers that it
  // starts are this program with the same arguments; the environment gives their place. Cancelled when one of
  // StopSignals comes meanwhile; otherwise a sentence that names the ranks that did not come or have ended. `device`,
  // `clock` and `log` outlive it.
  static absl::StatusOr<std::unique_ptr<IslandCrew>> Muster(const IslandOptions& options, Device& device,
                                                            const std::string& version, const Clock& clock, Log& log);
  // Orders the followers to leave, and kills those that it started and that do not.
  ~IslandCrew();
  IslandCrew(const IslandCrew&) = delete;
  IslandCrew& operator=(const IslandCrew&) = delete;

  // Of the train thread.
  IslandWays ways() { return {*island_, gpus_ != nullptr ? static_cast<Island&>(*gpus_) : *island_}; }
  // Not OK once a rank has ended: which, and by what where this process started it. Tells the followers every ten
  // seconds that this rank is there, or they take it for hung: to be called every second or so, by one thread.
  absl::Status Look() ATOLL_EXCLUDES(mutex_);
  // The same with what the exchanges know, when the train thread has no more of them.
  absl::Status Cause() ATOLL_EXCLUDES(mutex_);

 private:
  struct Follower {
    uint32_t rank = 0;
    pid_t process = 0;
    std::string end;      // how; empty: it runs
    bool killed = false;  // by a signal
  };
  IslandCrew(const Clock& clock, Log& log) : clock_(clock), log_(log) {}
  absl::Status Start(const IslandPlace& place) ATOLL_EXCLUDES(mutex_);
  // Takes note of processes that have ended; the first of them, in a sentence.
  absl::Status Reap() ATOLL_EXCLUDES(mutex_);
  bool AllEnded() ATOLL_EXCLUDES(mutex_);

  const Clock& clock_;
  Log& log_;
  Mutex mutex_;
  std::vector<Follower> followers_ ATOLL_GUARDED_BY(mutex_);  // that this process started
  std::unique_ptr<TcpIsland> island_;
  std::unique_ptr<GpuIsland> gpus_;  // null: values go over TCP as well
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ISLAND_CREW_H_
