// SPDX-License-Identifier: Apache-2.0
// The devices of an island's ranks among each other: exchanges of device memory that no host copies. No call waits for
// another rank; whoever waits polls, so that a rank that is lost can be noticed meanwhile (worker/island/gpu_island.h).
#ifndef ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_
#define ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_

#include <array>
#include <cstddef>
#include <span>

#include "common/base/status.h"

namespace atl {

// What the ranks of one group find each other by: one of them makes it. 128 bytes, as NCCL has it.
using GroupKey = std::array<std::byte, 128>;

enum class GroupState {
  kBusy,     // the ranks meet, or an exchange is being begun: none may be begun now
  kRunning,  // exchanges are under way; another may be begun
  kIdle,     // all that were begun are done
};

// Thread rule: calls must not overlap. Must not outlive its Device. Its end is that of what is under way.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  // Internal once the group is of no use any more.
  virtual absl::StatusOr<GroupState> Poll() = 0;
  // values := mean over ranks, the same bits on every rank, though not added in rank order as a TcpIsland does. Runs
  // after the exchanges before it and after all work enqueued so far on `compute_stream` (as in device.h), and is not
  // waited for by work enqueued there later. `values` is device memory, untouched until Poll says kIdle. All ranks
  // begin the same exchanges in the same order.
  virtual absl::Status BeginMean(std::span<float> values, void* compute_stream) = 0;
  // values := rank 0's; otherwise as above.
  virtual absl::Status BeginBroadcast(std::span<float> values, void* compute_stream) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_DEVICE_GROUP_H_
