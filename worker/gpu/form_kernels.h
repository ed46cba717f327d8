// SPDX-License-Identifier: Apache-2.0
// Forms a contribution in one pass over device memory. The arithmetic is form_math.h, the contract that of the
// table's `form` (worker/device/gpu_abi.h). Work is enqueued on `stream` of the current device without waiting.
// Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_FORM_KERNELS_H_
#define ATOLL_WORKER_GPU_FORM_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// Ranges of device memory, aligned to 4 bytes, `encoded` and `sums` to 8; `lost` may be `local` or `residual`.
struct FormRanges {
  const float *local, *outer;
  const float* residual;  // or null
  float* lost;            // or null
  void* encoded;
  atoll_gpu_block_sums* sums;
};

// Reads 8 or 12 bytes per element and writes the encoding, and 4 bytes with `lost`. Returns the
// launch's error, cudaErrorInvalidValue for an unknown codec.
cudaError_t FormOnDevice(atoll_gpu_codec codec, const FormRanges& ranges, uint64_t elements, cudaStream_t stream);

// The table's `merge`. Per element reads and writes 4 bytes of device memory, and reads 4 over the bus.
cudaError_t MergeOnDevice(float own, float others, const float* outer, float* local, uint64_t elements,
                          cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_FORM_KERNELS_H_
