// SPDX-License-Identifier: Apache-2.0
// The table's entries for device memory and for forming contributions (worker/device/gpu_abi.h):
// the transfers from and to the host around the pass. Private to worker/gpu.
#ifndef ATOLL_WORKER_GPU_FORMING_H_
#define ATOLL_WORKER_GPU_FORMING_H_

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

int32_t MemoryAllocate(atoll_gpu_context* context, uint64_t bytes, void** out);
int32_t MemoryFree(atoll_gpu_context* context, void* memory);
int32_t FormScratch(atoll_gpu_codec codec, uint64_t elements, int32_t with_residual, uint64_t* bytes);
int32_t Form(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream,
             atoll_gpu_event** done);
int32_t FormPass(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream);
int32_t Merge(atoll_gpu_context* context, float own, float others, const float* outer, float* local, uint64_t elements,
              void* compute_stream, atoll_gpu_event** done);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_FORMING_H_
