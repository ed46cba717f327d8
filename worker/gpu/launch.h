// SPDX-License-Identifier: Apache-2.0
// Launches kernels by function calls: .cu files are plain C++ except for the kernels. Private to worker/gpu.
#ifndef ATOLL_WORKER_GPU_LAUNCH_H_
#define ATOLL_WORKER_GPU_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace atl::gpu {

// The most thread blocks of one launch; each block loops over the remaining work.
constexpr uint64_t kMostBlocks = 1u << 14;

// 1 to kMostBlocks thread blocks.
inline dim3 GridOf(uint64_t blocks) {
  return dim3(static_cast<uint32_t>(std::max<uint64_t>(1, std::min(blocks, kMostBlocks))));
}

inline bool IsAligned(const void* memory, uint64_t bytes) { return reinterpret_cast<uintptr_t>(memory) % bytes == 0; }

// Enqueues the kernel on `stream` of the current device; returns the launch's error.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, uint32_t threads, cudaStream_t stream,
                   Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_LAUNCH_H_
