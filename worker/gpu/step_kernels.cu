// SPDX-License-Identifier: Apache-2.0
// Kernels of the inner optimizer. Both are memory-bound: a thread processes four elements at once
// if memory is aligned.
#include <algorithm>

#include "worker/gpu/adamw_math.h"
#include "worker/gpu/launch.h"
#include "worker/gpu/step_kernels.h"

namespace atl::gpu {
namespace {

namespace math = adamw_math;

constexpr uint32_t kThreads = 256;
static_assert(math::kSumBlock == ATOLL_GPU_SUM_BLOCK && math::kSumBlock % math::kSumLanes == 0);
static_assert((math::kSumLanes & (math::kSumLanes - 1)) == 0, "lanes are added in halves");

__device__ inline uint64_t ThisThread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline uint64_t AllThreads() { return uint64_t{gridDim.x} * blockDim.x; }

__device__ inline void UpdateOne(const atoll_gpu_adamw& f, const AdamwRanges& r, uint64_t i, bool clear) {
  const math::Element e = math::Updated({r.parameters[i], r.gradients[i], r.first[i], r.second[i]}, f);
  r.parameters[i] = e.parameter;
  r.gradients[i] = clear ? 0.0f : e.gradient;
  r.first[i] = e.first;
  r.second[i] = e.second;
  if (r.rounded != nullptr) r.rounded[i] = math::Rounded(e.parameter);
}

__device__ inline float4 Load(const float* values, uint64_t four) {
  return reinterpret_cast<const float4*>(values)[four];
}
__device__ inline void Store(float4 x, float* values, uint64_t four) { reinterpret_cast<float4*>(values)[four] = x; }

__device__ inline void UpdateFour(const atoll_gpu_adamw& f, const AdamwRanges& r, uint64_t four, bool clear) {
  const float4 p = Load(r.parameters, four), g = Load(r.gradients, four), m = Load(r.first, four),
               v = Load(r.second, four);
  const math::Element a = math::Updated({p.x, g.x, m.x, v.x}, f), b = math::Updated({p.y, g.y, m.y, v.y}, f),
                      c = math::Updated({p.z, g.z, m.z, v.z}, f), d = math::Updated({p.w, g.w, m.w, v.w}, f);
  Store(make_float4(a.parameter, b.parameter, c.parameter, d.parameter), r.parameters, four);
  Store(clear ? make_float4(0, 0, 0, 0) : make_float4(a.gradient, b.gradient, c.gradient, d.gradient), r.gradients,
        four);
  Store(make_float4(a.first, b.first, c.first, d.first), r.first, four);
  Store(make_float4(a.second, b.second, c.second, d.second), r.second, four);
  if (r.rounded != nullptr) {
    reinterpret_cast<ushort4*>(r.rounded)[four] = make_ushort4(math::Rounded(a.parameter), math::Rounded(b.parameter),
                                                               math::Rounded(c.parameter), math::Rounded(d.parameter));
  }
}

// `fours` groups of four elements by wide accesses, then the rest one by one.
__global__ void Adamw(atoll_gpu_adamw f, AdamwRanges r, uint64_t elements, uint64_t fours, bool clear) {
  for (uint64_t i = ThisThread(); i < fours; i += AllThreads()) UpdateFour(f, r, i, clear);
  for (uint64_t i = fours * 4 + ThisThread(); i < elements; i += AllThreads()) UpdateOne(f, r, i, clear);
}

// A block of threads takes a block of values; a lane is a thread.
__global__ void Squares(const float* values, uint64_t elements, uint64_t blocks, float* sums) {
  __shared__ float lanes[math::kSumLanes];
  for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const uint64_t begin = block * math::kSumBlock;
    const uint64_t left = elements - begin;
    const uint32_t count = left < math::kSumBlock ? static_cast<uint32_t>(left) : math::kSumBlock;
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < count; i += math::kSumLanes) {
      const float x = values[begin + i];
      sum = sum + x * x;
    }
    lanes[threadIdx.x] = sum;
    for (uint32_t half = math::kSumLanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) lanes[threadIdx.x] = lanes[threadIdx.x] + lanes[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[block] = lanes[0];
    __syncthreads();
  }
}

bool AllAligned(const AdamwRanges& r) {
  return IsAligned(r.parameters, 16) && IsAligned(r.gradients, 16) && IsAligned(r.first, 16) &&
         IsAligned(r.second, 16) && IsAligned(r.rounded, 8);
}

}  // namespace

cudaError_t AdamwOnDevice(const atoll_gpu_adamw& factors, const AdamwRanges& ranges, uint64_t elements, bool clear,
                          cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  const uint64_t fours = AllAligned(ranges) ? elements / 4 : 0;
  const uint64_t items = std::max(fours, elements - fours * 4);
  return Launch(Adamw, GridOf((items + kThreads - 1) / kThreads), kThreads, stream, factors, ranges, elements, fours,
                clear);
}

cudaError_t SumSquaresOnDevice(const float* values, uint64_t elements, float* sums, cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  const uint64_t blocks = (elements + math::kSumBlock - 1) / math::kSumBlock;
  return Launch(Squares, GridOf(blocks), math::kSumLanes, stream, values, elements, blocks, sums);
}

}  // namespace atl::gpu
