// SPDX-License-Identifier: Apache-2.0
// Exchanges between the devices of an island's ranks, without copies through the host. No call waits for
// another rank; callers poll, so that they can detect a lost rank meanwhile (worker/island/gpu_island.h).
#ifndef ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_
#define ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_

#include <array>
#include <cstddef>
#include <span>

#include "common/base/status.h"

namespace atl {

// Identifies a group to its ranks; one rank creates it. 128 bytes, as in NCCL.
using GroupKey = std::array<std::byte, 128>;

enum class GroupState {
  kBusy,     // ranks are joining, or an exchange is being started: start no other
  kRunning,  // exchanges are running; another may be started
  kIdle,     // all started exchanges are done
};

// Thread rule: calls must not overlap. Must not outlive its Device. The destructor ends running exchanges.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  // The state of joining and of all exchanges. Internal once the group is unusable.
  virtual absl::StatusOr<GroupState> Poll() = 0;
  // values := mean over ranks, the same bits on every rank, but not added in rank order as in a
  // TcpIsland. Runs after earlier exchanges and after all work enqueued so far on `compute_stream`
  // (as in device.h); later work there does not wait for it. `values` is device memory and must not
  // be touched until Poll returns kIdle. All ranks start the same exchanges in the same order.
  virtual absl::Status BeginMean(std::span<float> values, void* compute_stream) = 0;
  // values := rank 0's values; otherwise as BeginMean.
  virtual absl::Status BeginBroadcast(std::span<float> values, void* compute_stream) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_
