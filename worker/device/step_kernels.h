// SPDX-License-Identifier: Apache-2.0
// The inner optimizer over memory of a device, by kernels of its own beside LibTorch's: those of a GPU's plugin, and of
// a CPU (cpu_step.h).
#ifndef ATOLL_WORKER_DEVICE_STEP_KERNELS_H_
#define ATOLL_WORKER_DEVICE_STEP_KERNELS_H_

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/device/gpu_abi.h"

namespace atl {

// One update of AdamW (Loshchilov and Hutter 2019, algorithm 2, with the learning rate as its multiplier).
struct AdamwUpdate {
  double learning_rate = 0;
  double decay = 0;  // 0 where a tensor has none
  double beta1 = 0, beta2 = 0, epsilon = 0;
  uint64_t steps = 1;          // counts this update, from 1
  double gradient_factor = 1;  // of the gradients, before all else
  bool clear = false;          // gradients are zero afterwards; else they are the scaled ones
};

// What depends on the step alone, worked out in double and rounded once.
atoll_gpu_adamw FactorsOf(const AdamwUpdate& update);

// Ranges of device memory, equally long, not to be read through the spans.
struct AdamwSpans {
  std::span<float> parameters, gradients, first, second;
  std::span<uint16_t> rounded;  // for the parameters rounded to bf16, or empty where they are not wanted
};

// Work is enqueued on `compute_stream` and, but for Fetch, waited for by nobody. Thread rule: calls must not overlap.
// It does not outlive the Device it is of. Internal, with the device's own words, when a launch fails.
class StepKernels {
 public:
  virtual ~StepKernels() = default;
  // Updates parameters and both moments, rounds and clears, in one pass.
  virtual absl::Status Adamw(const AdamwUpdate& update, const AdamwSpans& spans, void* compute_stream) = 0;
  // sums[i] := sum of squares, in fp32, of values [i * ATOLL_GPU_SUM_BLOCK, ...); one sum for each block begun.
  virtual absl::Status SumSquares(std::span<const float> values, std::span<float> sums, void* compute_stream) = 0;
  // to := from, which is memory of the device, after all work enqueued so far on `compute_stream`; `to` is the host's.
  // Blocks. For a few numbers that the host waits for. Internal on a device failure, ResourceExhausted when no pinned
  // memory of that size can be had.
  virtual absl::Status Fetch(std::span<const float> from, std::span<float> to, void* compute_stream) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_STEP_KERNELS_H_
