// SPDX-License-Identifier: Apache-2.0
// CUDA's kernel language on a CPU, for tests. The compiler finds this header instead of the
// toolkit's, so that kernels (worker/gpu/*.cu) compile as plain C++ and run without a GPU. A launch
// is complete when it returns; its blocks run one after the other. Only the features that this
// project's kernels use exist; others do not compile.
//
// A launch has at most two blocks, so that small tests reach the later rounds of a block.
//
// Differences from a device: memory is the host's; there is one stream; shared memory keeps the
// values of the previous block, so that only one kernel is launched at a time; exponentials are the
// host library's.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/unit/worker/gpu/cuda_on_host/block_threads.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice = 3 };
using cudaStream_t = struct CUstream_st*;

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) ushort4 {
  uint16_t x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ushort4 make_ushort4(uint16_t x, uint16_t y, uint16_t z, uint16_t w) { return {x, y, z, w}; }

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

namespace cuda_on_host {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostBlocks = 2;

// Exchange of values between the lanes of a warp.
struct Warp {
  Barrier barrier{kWarp};
  std::array<uint64_t, kWarp> words{};
};

// A running block. The number of threads is a multiple of a warp.
struct Team {
  explicit Team(unsigned threads) : barrier(threads), warps(threads / kWarp) {}
  Barrier barrier;
  std::vector<Warp> warps;
};

inline thread_local Team* team = nullptr;

inline unsigned Lane() { return threadIdx.x % kWarp; }

// Collects one word of every lane of the warp for all lanes. All lanes must call it.
template <typename T, typename Look>
auto Among(T mine, const Look& look) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  Warp& warp = team->warps[threadIdx.x / kWarp];
  std::memcpy(&warp.words[Lane()], &mine, sizeof mine);
  warp.barrier.arrive_and_wait();
  const auto of = [&warp](unsigned lane) {
    T out;
    std::memcpy(&out, &warp.words[lane], sizeof out);
    return out;
  };
  const auto result = look(of);
  warp.barrier.arrive_and_wait();
  return result;
}

template <typename Kernel>
void Run(dim3 grid, dim3 threads, const Kernel& kernel) {
  Team all(threads.x);
  RunThreads(threads.x, [&] {
    blockDim = threads, gridDim = grid, team = &all;
    for (unsigned block = 0; block < grid.x; ++block) {
      blockIdx.x = block;
      kernel();
      all.barrier.arrive_and_wait();
    }
  });
}

}  // namespace cuda_on_host

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> given(std::forward<Arguments>(arguments)...);
  cuda_on_host::Run(std::min(config->gridDim.x, cuda_on_host::kMostBlocks), config->blockDim,
                    [&] { std::apply(kernel, given); });
  return cudaSuccess;
}

inline void __syncthreads() { cuda_on_host::team->barrier.arrive_and_wait(); }
inline uint32_t __reduce_max_sync(uint32_t, uint32_t mine) {
  return cuda_on_host::Among(mine, [](const auto& of) {
    uint32_t largest = 0;
    for (unsigned lane = 0; lane < cuda_on_host::kWarp; ++lane) largest = std::max(largest, of(lane));
    return largest;
  });
}
template <typename T>
T __shfl_sync(uint32_t, T mine, unsigned from) {
  return cuda_on_host::Among(mine, [from](const auto& of) { return of(from % cuda_on_host::kWarp); });
}
// Lanes form segments of `width`; a lane with a source beyond its segment keeps its own value.
template <typename T>
T __shfl_down_sync(uint32_t, T mine, unsigned by, unsigned width = cuda_on_host::kWarp) {
  return cuda_on_host::Among(mine, [by, width](const auto& of) {
    const unsigned lane = cuda_on_host::Lane();
    return of(lane % width + by < width ? lane + by : lane);
  });
}
inline uint32_t atomicMax(uint32_t* at, uint32_t value) {
  std::atomic_ref<uint32_t> word(*at);
  uint32_t before = word.load();
  while (before < value && !word.compare_exchange_weak(before, value)) {
  }
  return before;
}

using std::max;
using std::min;

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_CUDA_ON_HOST_CUDA_RUNTIME_API_H_
