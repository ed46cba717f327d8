// SPDX-License-Identifier: Apache-2.0
// What a model's pass does between its products, on device memory; the arithmetic is score_math.h and pass_math.h, the
// contract of each call that of the table's entry of its name (worker/device/gpu_abi.h). Everything is enqueued on
// `stream` of the current device and nothing is waited for. Accesses are of 16 bytes where addresses, rows and strides
// are multiples of them. Returns the launch's error, cudaErrorInvalidValue for a type that is not known or more than
// kMostItems pieces of work. Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_PASS_KERNELS_H_
#define ATOLL_WORKER_GPU_PASS_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_pass_abi.h"

namespace atl::gpu {

// Values of one call, but for judging: indices are of 32 bits.
constexpr uint64_t kMostItems = uint64_t{1} << 31;

// Reads each score once, or twice and writes it once with `gradients`. The second reading of a row finds it in the
// second-level cache of 40 MB or more where scores are bf16 and a row has 75,000 at most.
cudaError_t JudgeOnDevice(const atoll_gpu_judging& judging, cudaStream_t stream);
// Reads two values for each that it writes.
cudaError_t GateOnDevice(const atoll_gpu_gating& gating, cudaStream_t stream);
// Reads three values for each two that it writes.
cudaError_t GateBackOnDevice(const atoll_gpu_gating& gating, cudaStream_t stream);
// Reads and writes each value once.
cudaError_t TurnOnDevice(const atoll_gpu_turning& turning, cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_PASS_KERNELS_H_
