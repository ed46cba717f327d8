// SPDX-License-Identifier: Apache-2.0
// The inner optimizer over host memory, the counterpart of a GPU's kernels (step_kernels.h), by run-time
// dispatched SIMD over spans. No threads: the caller splits the ranges. The arithmetic equals
// worker/gpu/adamw_math.h to the bit, so every instruction set, every split and every GPU give the same result.
#ifndef ATOLL_WORKER_DEVICE_CPU_STEP_H_
#define ATOLL_WORKER_DEVICE_CPU_STEP_H_

#include <span>

#include "worker/device/step_kernels.h"

namespace atl::cpu_step {

// One update of all elements: parameters, both moments and, if `spans.rounded` is not empty, the parameters
// rounded to bf16. Leaves zeros in the gradients with `clear`, else the scaled gradients. Moves 32 bytes per
// element, 34 with `rounded`. Spans have equal lengths and need no alignment.
void Adamw(const atoll_gpu_adamw& factors, bool clear, const AdamwSpans& spans);

// sums[i] := sum of squares, in fp32, of values [i * ATOLL_GPU_SUM_BLOCK, ...); one sum per block,
// also for a partial one.
void SumSquares(std::span<const float> values, std::span<float> sums);

}  // namespace atl::cpu_step

#endif  // ATOLL_WORKER_DEVICE_CPU_STEP_H_
