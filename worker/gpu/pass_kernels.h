// SPDX-License-Identifier: Apache-2.0
// The parts of a model's pass between its products, on device memory. The arithmetic is score_math.h and
// pass_math.h, the contract of each call that of the table's entry of its name (worker/device/gpu_abi.h). Work
// is enqueued on `stream` of the current device without waiting. Accesses are 16 bytes wide if addresses, rows
// and strides are multiples of 16. Returns the launch's error, cudaErrorInvalidValue for an unknown type or
// more than kMostItems pieces of work. Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_PASS_KERNELS_H_
#define ATOLL_WORKER_GPU_PASS_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_pass_abi.h"

namespace atl::gpu {

// Limit of values per call, except for judging: indices have 32 bits.
constexpr uint64_t kMostItems = uint64_t{1} << 31;

// Reads each score once; with `gradients`, reads it twice and writes it once. The second read of a
// row hits an L2 cache of 40 MB or more if scores are bf16 and a row has at most 75,000.
cudaError_t JudgeOnDevice(const atoll_gpu_judging& judging, cudaStream_t stream);
// Reads two values for each written one.
cudaError_t GateOnDevice(const atoll_gpu_gating& gating, cudaStream_t stream);
// Reads three values for each two written ones.
cudaError_t GateBackOnDevice(const atoll_gpu_gating& gating, cudaStream_t stream);
// Reads and writes each value once.
cudaError_t TurnOnDevice(const atoll_gpu_turning& turning, cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_PASS_KERNELS_H_
