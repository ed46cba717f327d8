// SPDX-License-Identifier: Apache-2.0
// The inner optimizer over device memory, with kernels that replace LibTorch's operators: those of
// a GPU's plugin, and those of a CPU (cpu_step.h).
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
  double decay = 0;  // 0 for tensors without decay
  double beta1 = 0, beta2 = 0, epsilon = 0;
  uint64_t steps = 1;          // including this update, from 1
  double gradient_factor = 1;  // applied to the gradients first
  bool clear = false;          // leaves zeros in the gradients; else the scaled gradients
};

// The factors that depend only on the step, computed in double and rounded once.
atoll_gpu_adamw FactorsOf(const AdamwUpdate& update);

// Ranges of device memory with equal lengths; on a GPU not readable through the spans.
struct AdamwSpans {
  std::span<float> parameters, gradients, first, second;
  std::span<uint16_t> rounded;  // receives the parameters rounded to bf16; empty: not wanted
};

// Work is enqueued on `compute_stream`; only Fetch waits (on a CPU every call does). Thread rule: calls must
// not overlap. Must not outlive its Device. Internal, with the device's error message, if a launch fails.
class StepKernels {
 public:
  virtual ~StepKernels() = default;
  // Updates parameters and both moments, rounds and clears, in one pass.
  virtual absl::Status Adamw(const AdamwUpdate& update, const AdamwSpans& spans, void* compute_stream) = 0;
  // sums[i] := sum of squares, in fp32, of values [i * ATOLL_GPU_SUM_BLOCK, ...); one sum per
  // block, also for a partial one.
  virtual absl::Status SumSquares(std::span<const float> values, std::span<float> sums, void* compute_stream) = 0;
  // to := from, after all work enqueued so far on `compute_stream`; `from` is device memory and
  // `to` host memory. Blocks. For a few numbers. Internal on a device failure, ResourceExhausted if
  // pinned memory of that size is not available.
  virtual absl::Status Fetch(std::span<const float> from, std::span<float> to, void* compute_stream) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_STEP_KERNELS_H_
