// SPDX-License-Identifier: Apache-2.0
// Exchanges inside an island: the processes of one worker, each with a device, act as one.
// Implemented in worker/island: over TCP for CPUs, by device groups for GPUs.
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
  virtual uint32_t rank() const = 0;   // 0 leads: only it communicates with the coordinator
  virtual uint32_t world() const = 0;  // >= 1
  // values := mean over ranks, the same bits on every rank. Over TCP, ranks are added in rank order,
  // then multiplied by 1 / world. Runs after all work enqueued so far on `compute_stream` (as in
  // device.h). Blocks over TCP; between GPUs it runs on until Settle. Unavailable if a rank is lost.
  virtual absl::Status AllReduceMean(std::span<float> values, void* compute_stream) = 0;
  // Returns when all started exchanges are done. Unavailable if a rank is lost.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  // values := sum over ranks, in rank order, the same bits on every rank. For a few numbers in host
  // memory. Blocks.
  virtual absl::Status AllReduceSum(std::span<double> values) = 0;
  // Sends rank 0's values to all ranks. Blocks.
  virtual absl::Status Broadcast(std::span<float> values, void* compute_stream) = 0;
  // With `only`, this rank has no share in the exchanges until further notice. It then has no own
  // work from which to derive a deadline, and waits as long as rank 0 lives. Rank 0 has a share in
  // every step and enforces the deadlines.
  virtual void OnlyWait(bool /*only*/) {}
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_ISLAND_H_
