// SPDX-License-Identifier: Apache-2.0
// The plugin's pass kernels with a device's interface, run on the host (cuda_on_host).
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_HOST_PASS_KERNELS_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_HOST_PASS_KERNELS_H_

#include <atomic>
#include <cstddef>

#include "worker/device/pass_kernels.h"

namespace atl {

class HostPassKernels final : public PassKernels {
 public:
  absl::Status Judge(const atoll_gpu_judging& judging) override;
  absl::Status Gate(const atoll_gpu_gating& gating) override;
  absl::Status GateBack(const atoll_gpu_gating& gating) override;
  absl::Status Turn(const atoll_gpu_turning& turning) override;
  size_t calls() const { return calls_; }

 private:
  std::atomic<size_t> calls_ = 0;  // LibTorch's threads make some
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_HOST_PASS_KERNELS_H_
