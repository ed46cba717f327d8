// SPDX-License-Identifier: Apache-2.0
// The exchanges inside an island: the processes of one worker, each with a device, act as one. Behind it stand TCP for
// CPUs and groups of devices for GPUs (worker/island), and here a world of one.
#ifndef ATOLL_WORKER_DEVICE_ISLAND_H_
#define ATOLL_WORKER_DEVICE_ISLAND_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"

namespace atl {

class Island {
 public:
  virtual ~Island() = default;
  virtual uint32_t rank() const = 0;   // 0 leads: it alone speaks to the coordinator
  virtual uint32_t world() const = 0;  // >= 1
  // values := mean over ranks, the same bits on every rank; over TCP ranks are added in rank order, then multiplied by
  // 1 / world. After all work enqueued so far on `compute_stream` (as in device.h). Blocks, or is under way until
  // Settle. Unavailable when a rank is lost.
  virtual absl::Status AllReduceMean(std::span<float> values, void* compute_stream) = 0;
  // Returns when all that is under way is done. Unavailable when a rank is lost.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  // values := sum over ranks, in rank order, the same bits on every rank: a few numbers in host memory. Blocks.
  virtual absl::Status AllReduceSum(std::span<double> values) = 0;
  // Rank 0's values to all. Blocks.
  virtual absl::Status Broadcast(std::span<float> values, void* compute_stream) = 0;
  // Until it is told otherwise this rank has no share in what is exchanged, so no work of its own to measure that of
  // the others by: it waits as long as rank 0 lives, which has a share in every step and keeps the time.
  virtual void OnlyWait(bool /*only*/) {}
};

// A world of one: nothing to exchange, so values are left as they are.
std::unique_ptr<Island> MakeSoloIsland();

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_ISLAND_H_
