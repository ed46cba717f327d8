// SPDX-License-Identifier: Apache-2.0
// Kernels for the parts of a model's pass between its products. All are memory-bound: a thread
// accesses 16 bytes at once if memory is aligned and rows are long enough. In judging, a thread
// block takes a row of scores; elsewhere a thread takes a few values of a row.
#include <algorithm>
#include <initializer_list>

#include "worker/gpu/launch.h"
#include "worker/gpu/pass_kernels.h"
#include "worker/gpu/pass_math.h"
#include "worker/gpu/score_math.h"

namespace atl::gpu {
namespace {

using pass_math::Bf16;
using pass_math::Fp32;
using score_math::Part;

constexpr uint32_t kThreads = 256;
// For rows of at least kLongRow scores. With fewer threads, more rows would be active than the L2 cache holds.
constexpr uint32_t kMostThreads = 1024;
constexpr uint64_t kLongRow = 16384;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint64_t kWideBytes = 16;

template <typename Format>
using WordOf = typename Format::Word;

// Adjacent stored values, accessed as one word if there are kWide of them.
template <typename Format, uint32_t kCount>
struct alignas(sizeof(WordOf<Format>) * kCount) Words {
  WordOf<Format> words[kCount];
};

template <typename Format, uint32_t kCount>
struct Values {
  float x[kCount];
};

template <typename Format, uint32_t kCount>
__device__ inline Values<Format, kCount> Load(const WordOf<Format>* at) {
  const auto words = *reinterpret_cast<const Words<Format, kCount>*>(at);
  Values<Format, kCount> out;
  for (uint32_t i = 0; i < kCount; ++i) out.x[i] = Format::Value(words.words[i]);
  return out;
}
template <typename Format, uint32_t kCount>
__device__ inline void Store(const Values<Format, kCount>& values, WordOf<Format>* at) {
  Words<Format, kCount> words;
  for (uint32_t i = 0; i < kCount; ++i) words.words[i] = Format::WordOf(values.x[i]);
  *reinterpret_cast<Words<Format, kCount>*>(at) = words;
}

// Scores ----------------------------------------------------------------------------------------------------------

__device__ inline Part Down(Part mine, uint32_t by) {
  return {__shfl_down_sync(kAllLanes, mine.largest, by), __shfl_down_sync(kAllLanes, mine.sum, by)};
}

// Combines the parts of the whole thread block; every thread gets the result. `of_warps` is free
// after the next barrier.
__device__ inline Part JoinedByAll(Part mine, Part* of_warps) {
  for (uint32_t half = kWarp / 2; half > 0; half /= 2) mine = score_math::Joined(mine, Down(mine, half));
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  Part all = of_warps[0];
  for (uint32_t warp = 1; warp < blockDim.x / kWarp; ++warp) all = score_math::Joined(all, of_warps[warp]);
  return all;
}

template <typename Format, uint32_t kCount>
__global__ void __launch_bounds__(kMostThreads, 2) Judge(atoll_gpu_judging j) {
  __shared__ Part of_warps[kMostThreads / kWarp];
  for (uint64_t row = blockIdx.x; row < j.rows; row += gridDim.x) {
    WordOf<Format>* const scores = static_cast<WordOf<Format>*>(j.scores) + row * j.vocab;
    const uint32_t target = static_cast<uint32_t>(j.targets[row]);
    const float of_target = Format::Value(scores[target]);  // read before another thread overwrites it with a gradient
    Part mine = score_math::Nothing();
    for (uint32_t at = threadIdx.x * kCount; at < j.vocab; at += blockDim.x * kCount) {
      mine = score_math::With(mine, Load<Format, kCount>(scores + at).x, kCount);
    }
    const float log_sum = score_math::LogSum(JoinedByAll(mine, of_warps));
    if (threadIdx.x == 0) j.losses[row] = log_sum - of_target;
    if (j.gradients != 0) {
      const float factor = score_math::FactorOf(log_sum, j.scale, j.z_loss);
      for (uint32_t at = threadIdx.x * kCount; at < j.vocab; at += blockDim.x * kCount) {
        auto values = Load<Format, kCount>(scores + at);
        for (uint32_t i = 0; i < kCount; ++i) {
          values.x[i] = score_math::Gradient(values.x[i], log_sum, factor, at + i == target ? j.scale : 0.0f);
        }
        Store<Format, kCount>(values, scores + at);
      }
    }
    __syncthreads();
  }
}

// Between products ------------------------------------------------------------------------------------------------

__device__ inline uint32_t ThisThread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline uint32_t AllThreads() { return gridDim.x * blockDim.x; }

template <typename Format, uint32_t kCount>
__global__ void Gate(atoll_gpu_gating g, uint32_t items) {
  const uint32_t of_row = g.width / kCount;
  const auto* const in = static_cast<const WordOf<Format>*>(g.gate_up);
  auto* const out = static_cast<WordOf<Format>*>(g.out);
  for (uint32_t item = ThisThread(); item < items; item += AllThreads()) {
    const uint64_t row = item / of_row, at = item % of_row * kCount;
    const auto gate = Load<Format, kCount>(in + row * 2 * g.width + at);
    auto up = Load<Format, kCount>(in + (row * 2 + 1) * g.width + at);
    for (uint32_t i = 0; i < kCount; ++i) up.x[i] = pass_math::Gated(gate.x[i], up.x[i]);
    Store<Format, kCount>(up, out + row * g.width + at);
  }
}

template <typename Format, uint32_t kCount>
__global__ void GateBack(atoll_gpu_gating g, uint32_t items) {
  const uint32_t of_row = g.width / kCount;
  const auto* const in = static_cast<const WordOf<Format>*>(g.gate_up);
  const auto* const above = static_cast<const WordOf<Format>*>(g.gradient);
  auto* const out = static_cast<WordOf<Format>*>(g.out);
  for (uint32_t item = ThisThread(); item < items; item += AllThreads()) {
    const uint64_t row = item / of_row, at = item % of_row * kCount;
    const uint64_t first = row * 2 * g.width + at, second = first + g.width;
    auto gate = Load<Format, kCount>(in + first), up = Load<Format, kCount>(in + second);
    const auto gradient = Load<Format, kCount>(above + row * g.width + at);
    for (uint32_t i = 0; i < kCount; ++i) {
      const pass_math::GateGradients back = pass_math::GateBack(gate.x[i], up.x[i], gradient.x[i]);
      gate.x[i] = back.gate;
      up.x[i] = back.up;
    }
    Store<Format, kCount>(gate, out + first);
    Store<Format, kCount>(up, out + second);
  }
}

// A head is `of_head` pieces of kCount pairs.
template <typename Format, uint32_t kCount>
__global__ void Turn(atoll_gpu_turning t, uint32_t items, uint32_t of_head) {
  const uint32_t half = t.head_dim / 2;
  const float sign = t.back != 0 ? -1.0f : 1.0f;
  for (uint32_t item = ThisThread(); item < items; item += AllThreads()) {
    const uint32_t at = item % of_head * kCount, heads = item / of_head;
    const uint32_t head = heads % t.heads, row = heads / t.heads;
    const uint64_t sequence = row / t.length, position = row % t.length;
    const auto place = [&](const uint64_t* strides) {
      return sequence * strides[0] + position * strides[1] + head * strides[2] + at;
    };
    const auto* const from = static_cast<const WordOf<Format>*>(t.in) + place(t.in_strides);
    auto* const to = static_cast<WordOf<Format>*>(t.out) + place(t.out_strides);
    const uint64_t angle = (t.angle_rows == t.length ? position : row) * half + at;
    const auto cosine = Load<Format, kCount>(static_cast<const WordOf<Format>*>(t.cosines) + angle);
    const auto sine = Load<Format, kCount>(static_cast<const WordOf<Format>*>(t.sines) + angle);
    auto first = Load<Format, kCount>(from), second = Load<Format, kCount>(from + half);
    for (uint32_t i = 0; i < kCount; ++i) {
      const pass_math::Pair turned = pass_math::Turned({first.x[i], second.x[i]}, cosine.x[i], sign * sine.x[i]);
      first.x[i] = turned.first;
      second.x[i] = turned.second;
    }
    Store<Format, kCount>(first, to);
    Store<Format, kCount>(second, to + half);
  }
}

// Launches --------------------------------------------------------------------------------------------------------

bool AreWide(std::initializer_list<const void*> memory) {
  return std::all_of(memory.begin(), memory.end(), [](const void* at) { return IsAligned(at, kWideBytes); });
}
bool AreMultiples(std::initializer_list<uint64_t> lengths, uint64_t of) {
  return std::all_of(lengths.begin(), lengths.end(), [of](uint64_t length) { return length % of == 0; });
}

// Calls `work` with the format of a type.
template <typename Work>
cudaError_t InFormat(int32_t type, const Work& work) {
  switch (type) {
    case ATOLL_GPU_TYPE_FP32: return work(Fp32{});
    case ATOLL_GPU_TYPE_BF16: return work(Bf16{});
    default: return cudaErrorInvalidValue;
  }
}

dim3 GridFor(uint64_t items) { return GridOf((items + kThreads - 1) / kThreads); }

// The gating kernels, with kWide values at once or one. A missing gradient has the address 0, which is aligned.
template <typename Format>
cudaError_t LaunchGating(const atoll_gpu_gating& g, void (*by_many)(atoll_gpu_gating, uint32_t),
                         void (*by_one)(atoll_gpu_gating, uint32_t), cudaStream_t stream) {
  const bool wide = AreWide({g.gate_up, g.gradient, g.out}) && AreMultiples({g.width}, Format::kWide);
  const uint64_t items = g.rows * g.width / (wide ? Format::kWide : 1);
  if (items == 0) return cudaSuccess;
  if (items > kMostItems) return cudaErrorInvalidValue;
  return Launch(wide ? by_many : by_one, GridFor(items), kThreads, stream, g, static_cast<uint32_t>(items));
}

}  // namespace

cudaError_t JudgeOnDevice(const atoll_gpu_judging& j, cudaStream_t stream) {
  if (j.rows == 0) return cudaSuccess;
  if (j.vocab == 0 || j.vocab >= kMostItems) return cudaErrorInvalidValue;
  return InFormat(j.type, [&](auto format) {
    using Format = decltype(format);
    const bool wide = AreWide({j.scores}) && AreMultiples({j.vocab}, Format::kWide);
    const auto kernel = wide ? Judge<Format, Format::kWide> : Judge<Format, 1>;
    return Launch(kernel, GridOf(j.rows), j.vocab < kLongRow ? kThreads : kMostThreads, stream, j);
  });
}

cudaError_t GateOnDevice(const atoll_gpu_gating& g, cudaStream_t stream) {
  return InFormat(g.type, [&](auto format) {
    using Format = decltype(format);
    return LaunchGating<Format>(g, Gate<Format, Format::kWide>, Gate<Format, 1>, stream);
  });
}

cudaError_t GateBackOnDevice(const atoll_gpu_gating& g, cudaStream_t stream) {
  return InFormat(g.type, [&](auto format) {
    using Format = decltype(format);
    return LaunchGating<Format>(g, GateBack<Format, Format::kWide>, GateBack<Format, 1>, stream);
  });
}

cudaError_t TurnOnDevice(const atoll_gpu_turning& t, cudaStream_t stream) {
  return InFormat(t.type, [&](auto format) {
    using Format = decltype(format);
    const uint64_t half = t.head_dim / 2;
    const bool wide = AreWide({t.in, t.out, t.cosines, t.sines}) &&
                      AreMultiples({half, t.in_strides[0], t.in_strides[1], t.in_strides[2], t.out_strides[0],
                                    t.out_strides[1], t.out_strides[2]},
                                   Format::kWide);
    const uint64_t of_head = half / (wide ? Format::kWide : 1);
    const uint64_t items = uint64_t{t.sequences} * t.length * t.heads * of_head;
    if (items == 0) return cudaSuccess;
    if (items > kMostItems || t.head_dim % 2 != 0) return cudaErrorInvalidValue;
    const auto kernel = wide ? Turn<Format, Format::kWide> : Turn<Format, 1>;
    return Launch(kernel, GridFor(items), kThreads, stream, t, static_cast<uint32_t>(items),
                  static_cast<uint32_t>(of_head));
  });
}

}  // namespace atl::gpu
