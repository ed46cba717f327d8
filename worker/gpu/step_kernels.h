// SPDX-License-Identifier: Apache-2.0
// The inner optimizer on device memory. The arithmetic is adamw_math.h, the contract of each call
// that of the table's entry of its name (worker/device/gpu_abi.h). Work is enqueued on `stream` of
// the current device without waiting. Accesses are wide if all ranges are aligned to 16 bytes
// (`rounded` to 8). Returns the launch's error. Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_STEP_KERNELS_H_
#define ATOLL_WORKER_GPU_STEP_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// Ranges of device memory with equal numbers of elements.
struct AdamwRanges {
  float *parameters, *gradients, *first, *second;
  uint16_t* rounded;  // bf16, or null
};

// Moves 32 bytes per element, 34 with `rounded`.
cudaError_t AdamwOnDevice(const atoll_gpu_adamw& factors, const AdamwRanges& ranges, uint64_t elements, bool clear,
                          cudaStream_t stream);

// Reads each value once.
cudaError_t SumSquaresOnDevice(const float* values, uint64_t elements, float* sums, cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_STEP_KERNELS_H_
