// SPDX-License-Identifier: Apache-2.0
// The single pass that forms a contribution. A thread block processes 4,096 elements: the values to
// send stay in shared memory until they are encoded, the losses until their squares are added. A
// warp takes a group of elements with one scale; each lane has every 32nd of them. The sums have
// the host's shape: one warp adds them with sixteen lanes each, while the others write. Needs
// compute capability 8.0 (hardware reduction), and no fused multiply-add (codec_math.h).
#include <algorithm>

#include "worker/gpu/form_kernels.h"
#include "worker/gpu/form_math.h"
#include "worker/gpu/launch.h"

namespace atl::gpu {
namespace {

namespace math = form_math;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
static_assert(math::kBlock == ATOLL_GPU_SUM_BLOCK && 2 * math::kLanes == kWarp);

// For one block of elements. `lost` is offset by sixteen banks, so that both sums are added without
// bank conflicts.
struct Shared {
  float sent[math::kBlock];
  float apart[math::kLanes];
  float lost[math::kBlock];
  uint32_t largest;
};

// Stores a lane's code. The lanes of a group are in step, and lanes beyond its end have the code 0.
template <typename Codec>
__device__ inline void StoreCode(uint32_t code, uint32_t at, bool within, uint8_t* codes) {
  if constexpr (Codec::kCodeBits == 4) {
    const uint32_t next = __shfl_down_sync(kAllLanes, code, 1);
    if (within && at % 2 == 0) codes[at / 2] = static_cast<uint8_t>(code | next << 4);
  } else if constexpr (Codec::kCodeBits == 8) {
    if (within) codes[at] = static_cast<uint8_t>(code);
  } else if constexpr (Codec::kCodeBits == 16) {
    if (within) reinterpret_cast<uint16_t*>(codes)[at] = static_cast<uint16_t>(code);
  } else {
    if (within) reinterpret_cast<uint32_t*>(codes)[at] = code;
  }
}

// Encodes `count` elements of one group to `to` and their losses to `lost`. Called by the whole warp.
template <typename Codec>
__device__ inline void FormGroup(const float* sent, uint32_t count, float* lost, uint8_t* to) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t scale = 0;
  if constexpr (Codec::kScaleBytes > 0) {
    uint32_t largest = 0;
    for (uint32_t i = lane; i < count; i += kWarp) {
      largest = max(largest, codec_math::Magnitude(codec_math::BitsOf(sent[i])));
    }
    scale = Codec::Scale(__reduce_max_sync(kAllLanes, largest));
    if (lane < Codec::kScaleBytes) to[lane] = static_cast<uint8_t>(scale >> (8 * lane));
  }
  for (uint32_t at = lane; at < Codec::kGroup; at += kWarp) {
    const bool within = at < count;
    const float h = within ? sent[at] : 0.0f;
    const uint32_t code = within ? Codec::Code(codec_math::BitsOf(h), scale) : 0;
    if (within) lost[at] = math::Lost(h, Codec::Value(code, scale));
    StoreCode<Codec>(code, at, within, to + Codec::kScaleBytes);
  }
}

// Lanes 0 to 15 add the squares of the sent values, the others those of the losses.
__device__ inline void AddSquares(const Shared& shared, uint32_t count, atoll_gpu_block_sums* out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const float* const values = lane < math::kLanes ? shared.sent : shared.lost;
  double sum = 0;
  for (uint32_t i = lane % math::kLanes; i < count; i += math::kLanes) sum = math::AddedSquare(sum, values[i]);
  for (uint32_t half = math::kLanes / 2; half > 0; half /= 2) {
    sum = sum + __shfl_down_sync(kAllLanes, sum, half, math::kLanes);
  }
  const double lost = __shfl_sync(kAllLanes, sum, math::kLanes);
  if (lane == 0) *out = {sum, lost, shared.largest, 0};
}

template <typename Codec>
__global__ void __launch_bounds__(kThreads) Form(FormRanges r, uint64_t elements, uint64_t blocks) {
  __shared__ Shared shared;
  const uint32_t warp = threadIdx.x / kWarp;
  for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const uint64_t begin = block * math::kBlock;
    const uint64_t left = elements - begin;
    const uint32_t count = left < math::kBlock ? static_cast<uint32_t>(left) : math::kBlock;
    if (threadIdx.x == 0) shared.largest = 0;
    __syncthreads();
    uint32_t largest = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
      const uint64_t at = begin + i;
      const float h = r.residual != nullptr ? math::Sent(r.outer[at], r.local[at], r.residual[at])
                                            : math::Sent(r.outer[at], r.local[at]);
      shared.sent[i] = h;
      largest = max(largest, codec_math::Magnitude(codec_math::BitsOf(h)));
    }
    largest = __reduce_max_sync(kAllLanes, largest);
    if (threadIdx.x % kWarp == 0) atomicMax(&shared.largest, largest);
    __syncthreads();
    uint8_t* const to = static_cast<uint8_t*>(r.encoded) + block * math::kBlockBytes<Codec>;
    for (uint32_t group = warp; group * Codec::kGroup < count; group += kThreads / kWarp) {
      const uint32_t at = group * Codec::kGroup;
      FormGroup<Codec>(shared.sent + at, min(Codec::kGroup, count - at), shared.lost + at,
                       to + group * math::kGroupBytes<Codec>);
    }
    __syncthreads();
    if (r.lost != nullptr) {
      for (uint32_t i = threadIdx.x; i < count; i += kThreads) r.lost[begin + i] = shared.lost[i];
    }
    if (warp == kThreads / kWarp - 1) AddSquares(shared, count, r.sums + block);
    __syncthreads();
  }
}

// Limited by the bus, over which the device reads `outer`.
__global__ void Merge(float own, float others, const float* outer, float* local, uint64_t elements) {
  const uint64_t all = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += all) {
    local[i] = own == 0.0f && others == 1.0f ? outer[i] : math::Merged(own, others, local[i], outer[i]);
  }
}

template <typename Codec>
cudaError_t LaunchForm(const FormRanges& ranges, uint64_t elements, cudaStream_t stream) {
  static_assert(math::kBlock % Codec::kGroup == 0 && math::kBlockBytes<Codec> % 4 == 0);
  const uint64_t blocks = (elements + math::kBlock - 1) / math::kBlock;
  return Launch(Form<Codec>, GridOf(blocks), kThreads, stream, ranges, elements, blocks);
}

}  // namespace

cudaError_t FormOnDevice(atoll_gpu_codec codec, const FormRanges& ranges, uint64_t elements, cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  switch (codec) {
    case ATOLL_GPU_CODEC_FP32: return LaunchForm<math::Fp32>(ranges, elements, stream);
    case ATOLL_GPU_CODEC_FP16: return LaunchForm<math::Fp16>(ranges, elements, stream);
    case ATOLL_GPU_CODEC_BF16: return LaunchForm<math::Bf16>(ranges, elements, stream);
    case ATOLL_GPU_CODEC_INT8: return LaunchForm<math::Int8>(ranges, elements, stream);
    case ATOLL_GPU_CODEC_MXFP4: return LaunchForm<math::Fp4<codec_math::Mxfp4>>(ranges, elements, stream);
    case ATOLL_GPU_CODEC_E3M0: return LaunchForm<math::Fp4<codec_math::E3m0>>(ranges, elements, stream);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t MergeOnDevice(float own, float others, const float* outer, float* local, uint64_t elements,
                          cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  return Launch(Merge, GridOf((elements + kThreads - 1) / kThreads), kThreads, stream, own, others, outer, local,
                elements);
}

}  // namespace atl::gpu
