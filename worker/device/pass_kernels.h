// SPDX-License-Identifier: Apache-2.0
// What a model's pass does between its products, by kernels of a device beside LibTorch's operators: each is one walk
// over memory where those are several.
#ifndef ATOLL_WORKER_DEVICE_PASS_KERNELS_H_
#define ATOLL_WORKER_DEVICE_PASS_KERNELS_H_

#include "common/base/status.h"
#include "worker/device/gpu_pass_abi.h"

namespace atl {

// Memory is the device's; work is enqueued on LibTorch's current stream in the calling thread, and waited for by
// nobody. What each does, and of what shapes, is said with its structure (gpu_pass_abi.h). Thread rule: any thread,
// also at once. It does not outlive the Device it is of. Internal, with the device's own words, when a launch fails.
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
