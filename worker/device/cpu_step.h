// SPDX-License-Identifier: Apache-2.0
// The inner optimizer over host memory: what a GPU's kernels do (step_kernels.h), by run-time dispatched SIMD over
// spans. No threads: the caller shares ranges out. The arithmetic is that of worker/gpu/adamw_math.h to the bit, so
// that every instruction set, every way to share out and every GPU make the same.
#ifndef ATOLL_WORKER_DEVICE_CPU_STEP_H_
#define ATOLL_WORKER_DEVICE_CPU_STEP_H_

#include <span>

#include "worker/device/step_kernels.h"

namespace atl::cpu_step {

// One update of all elements: parameters, both moments, and the parameters rounded to bf16 where `spans.rounded` is not
// empty; gradients are zero afterwards where `clear` says so, else the scaled ones. Moves 32 bytes an element, 34 with
// `rounded`. Spans are equally long and need no alignment.
void Adamw(const atoll_gpu_adamw& factors, bool clear, const AdamwSpans& spans);

// sums[i] := sum of squares, in fp32, of values [i * ATOLL_GPU_SUM_BLOCK, ...); one sum for each block begun.
void SumSquares(std::span<const float> values, std::span<float> sums);

}  // namespace atl::cpu_step

#endif  // ATOLL_WORKER_DEVICE_CPU_STEP_H_
