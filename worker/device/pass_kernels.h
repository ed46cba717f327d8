// SPDX-License-Identifier: Apache-2.0
// Device kernels for the parts of a model's pass between its products, as replacements of
// LibTorch's operators: one pass over memory instead of several.
#ifndef ATOLL_WORKER_DEVICE_PASS_KERNELS_H_
#define ATOLL_WORKER_DEVICE_PASS_KERNELS_H_

#include "common/base/status.h"
#include "worker/device/gpu_pass_abi.h"

namespace atl {

// Memory is on the device; work is enqueued on LibTorch's current stream of the calling thread, without
// waiting. Operations and shapes are documented at their structures (gpu_pass_abi.h). Thread rule: any thread,
// also concurrently. Must not outlive its Device. Internal, with the device's error message, if a launch fails.
class PassKernels {
 public:
  virtual ~PassKernels() = default;
  virtual absl::Status Judge(const atoll_gpu_judging& judging) = 0;
  virtual absl::Status Gate(const atoll_gpu_gating& gating) = 0;
  virtual absl::Status GateBack(const atoll_gpu_gating& gating) = 0;
  virtual absl::Status Turn(const atoll_gpu_turning& turning) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_PASS_KERNELS_H_
