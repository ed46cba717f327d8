// SPDX-License-Identifier: Apache-2.0
// AdamW and the gradient norm by a device's own kernels. Private to worker/train; no LibTorch type
// appears here.
#ifndef ATOLL_WORKER_TRAIN_KERNEL_OPTIMIZER_H_
#define ATOLL_WORKER_TRAIN_KERNEL_OPTIMIZER_H_

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/device/step_kernels.h"
#include "worker/model/arena.h"

namespace atl {

// Compares `kernels` with LibTorch on random values on the device: three updates of 10,007
// elements, with clipping and decay, the sums of squares, and a fourth update that rounds and
// clears. FailedPrecondition, with the difference, unless they agree within fp32's rounding, and to
// the bit in the rounded copy and the cleared gradients; the kernels' own error if they fail.
absl::Status CheckKernels(StepKernels& kernels, TensorDevice device);

// Owned by one thread at a time. `kernels` and `gradients` outlive it.
class KernelNorm {
 public:
  static absl::StatusOr<std::unique_ptr<KernelNorm>> Create(StepKernels& kernels, Arena& gradients);
  // Euclidean norm: fp32 within blocks of 4,096 elements, double over blocks in arena order.
  absl::StatusOr<double> Norm();

 private:
  KernelNorm(StepKernels& kernels, Arena& gradients, std::unique_ptr<Arena> sums)
      : kernels_(kernels), gradients_(gradients), sums_(std::move(sums)), fetched_(sums_->elements()) {}
  StepKernels& kernels_;
  Arena& gradients_;
  std::unique_ptr<Arena> sums_;
  std::vector<float> fetched_;  // sums_ on the host
};

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_KERNEL_OPTIMIZER_H_
