// SPDX-License-Identifier: Apache-2.0
// The optimizer's kernels for a CPU: those of worker/device, distributed over the threads of
// LibTorch's operators.
#ifndef ATOLL_WORKER_TRAIN_CPU_STEP_KERNELS_H_
#define ATOLL_WORKER_TRAIN_CPU_STEP_KERNELS_H_

#include "worker/device/device.h"
#include "worker/device/step_kernels.h"

namespace atl {

// For arenas in host memory. Each call is complete on return. The results do not depend on the
// number of threads or the instruction set. No state: safe on every thread.
class CpuStepKernels final : public StepKernels {
 public:
  absl::Status Adamw(const AdamwUpdate& update, const AdamwSpans& spans, void* compute_stream) override;
  absl::Status SumSquares(std::span<const float> values, std::span<float> sums, void* compute_stream) override;
  absl::Status Fetch(std::span<const float> from, std::span<float> to, void* compute_stream) override;
};

// The kernels for a trainer on `device`: on a CPU `cpu`, otherwise the device's own, which may be null.
inline StepKernels* KernelsFor(Device& device, CpuStepKernels& cpu) {
  return device.info().kind == DeviceKind::kCpu ? &cpu : device.step_kernels();
}

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_CPU_STEP_KERNELS_H_
