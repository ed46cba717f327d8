// SPDX-License-Identifier: Apache-2.0
// A rank of an island other than 0: no coordinator, no data, no session. It follows the orders of
// rank 0 and ends with it.
#ifndef ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_
#define ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_

#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "worker/device/gpu_plugin.h"
#include "worker/island/mesh.h"

namespace atl {

// The place of this process in the island that its options describe.
IslandPlace PlaceOf(const IslandOptions& options, const std::string& version);
// Training threads on each rank: the given number, or the usable cores (host_cores.h) divided among
// the ranks on this machine; 0 if LibTorch's default is the same.
int32_t ThreadsOf(const WorkerOptions& options);

// Runs until rank 0 orders to leave. If rank 0 ends, the island breaks, or this rank cannot join, writes an error
// message to standard error. Stop signals do not end it, because rank 0 gets them too and leaves in order. Returns an
// exit code (exit_codes.h).
int RunIslandFollower(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                      const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ISLAND_FOLLOWER_H_
