// SPDX-License-Identifier: Apache-2.0
// A rank of an island other than 0: no coordinator, no data, no session. It does what rank 0 orders, and ends with it.
#ifndef ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_
#define ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_

#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "worker/device/gpu_plugin.h"
#include "worker/island/mesh.h"

namespace atl {

// This process's place in the island that its options tell of.
IslandPlace PlaceOf(const IslandOptions& options, const std::string& version);
// Threads of training on each rank: as told, or the cores that may be used (host_cores.h) shared among the ranks here;
// 0 where LibTorch's own number is that.
int32_t ThreadsOf(const WorkerOptions& options);

// Runs until rank 0 orders to leave, ends, or the island breaks: then a sentence on standard error. Stop signals
// do not end it, since rank 0 gets them as well and leaves in order. An exit code (exit_codes.h).
int RunIslandFollower(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                      const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_
