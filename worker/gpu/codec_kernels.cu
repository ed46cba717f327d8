// SPDX-License-Identifier: Apache-2.0
// Kernels of the codecs. A warp processes a block of a block format: each lane has one element of
// 32 or four of 128, and a warp reduction finds the largest magnitude. The plain formats process
// four elements per thread if memory is aligned. Needs compute capability 8.0 (hardware reduction),
// and no fused multiply-add (see codec_math.h).
#include <algorithm>

#include "worker/gpu/codec_kernels.h"
#include "worker/gpu/codec_math.h"
#include "worker/gpu/launch.h"

namespace atl::gpu {
namespace {

namespace math = codec_math;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline uint64_t ThisThread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline uint64_t AllThreads() { return uint64_t{gridDim.x} * blockDim.x; }

// Plain formats ---------------------------------------------------------------------------------------------------

struct Half {
  __device__ static uint32_t Encode(uint32_t bits) { return math::HalfFromBits(bits); }
  __device__ static uint32_t Decode(uint32_t word) { return math::BitsFromHalf(word); }
};

struct Bfloat16 {
  __device__ static uint32_t Encode(uint32_t bits) { return math::Bfloat16FromBits(bits); }
  __device__ static uint32_t Decode(uint32_t word) { return math::BitsFromBfloat16(word); }
};

// Words of two bytes at any address.
__device__ inline uint32_t LoadWord(const uint8_t* at) { return at[0] | uint32_t{at[1]} << 8; }
__device__ inline void StoreWord(uint32_t word, uint8_t* at) {
  at[0] = static_cast<uint8_t>(word);
  at[1] = static_cast<uint8_t>(word >> 8);
}

// `fours` groups of four elements by wide accesses, then the rest one by one.
template <typename Format>
__global__ void EncodePlain(const uint32_t* in, uint64_t elements, uint64_t fours, uint8_t* out) {
  for (uint64_t i = ThisThread(); i < fours; i += AllThreads()) {
    const uint4 x = reinterpret_cast<const uint4*>(in)[i];
    reinterpret_cast<uint2*>(out)[i] =
        make_uint2(Format::Encode(x.x) | Format::Encode(x.y) << 16, Format::Encode(x.z) | Format::Encode(x.w) << 16);
  }
  for (uint64_t i = fours * 4 + ThisThread(); i < elements; i += AllThreads()) {
    StoreWord(Format::Encode(in[i]), out + i * 2);
  }
}

template <typename Format>
__global__ void DecodePlain(const uint8_t* in, uint64_t elements, uint64_t fours, uint32_t* out) {
  for (uint64_t i = ThisThread(); i < fours; i += AllThreads()) {
    const uint2 words = reinterpret_cast<const uint2*>(in)[i];
    reinterpret_cast<uint4*>(out)[i] = make_uint4(Format::Decode(words.x & 0xffffu), Format::Decode(words.x >> 16),
                                                  Format::Decode(words.y & 0xffffu), Format::Decode(words.y >> 16));
  }
  for (uint64_t i = fours * 4 + ThisThread(); i < elements; i += AllThreads()) {
    out[i] = Format::Decode(LoadWord(in + i * 2));
  }
}

// int8 ------------------------------------------------------------------------------------------------------------

// Four values from lane * 4 on; zeros beyond the `count` elements of the block.
__device__ inline uint4 LoadFour(const uint32_t* block, uint32_t lane, uint32_t count, bool wide) {
  const uint32_t at = lane * 4;
  if (wide && at + 4 <= count) return *reinterpret_cast<const uint4*>(block + at);
  return make_uint4(at < count ? block[at] : 0, at + 1 < count ? block[at + 1] : 0, at + 2 < count ? block[at + 2] : 0,
                    at + 3 < count ? block[at + 3] : 0);
}

__device__ inline void StoreFour(uint4 x, uint32_t lane, uint32_t count, bool wide, uint32_t* block) {
  const uint32_t at = lane * 4;
  if (wide && at + 4 <= count) {
    *reinterpret_cast<uint4*>(block + at) = x;
    return;
  }
  if (at < count) block[at] = x.x;
  if (at + 1 < count) block[at + 1] = x.y;
  if (at + 2 < count) block[at + 2] = x.z;
  if (at + 3 < count) block[at + 3] = x.w;
}

// Four one-byte codes, the first in the lowest byte. Blocks of 130 bytes keep an address even, but
// no further aligned.
__device__ inline uint32_t LoadCodes(const uint8_t* codes, uint32_t lane, uint32_t count, bool even) {
  const uint32_t at = lane * 4;
  if (even && at + 4 <= count) {
    const uint16_t* const pairs = reinterpret_cast<const uint16_t*>(codes + at);
    return pairs[0] | uint32_t{pairs[1]} << 16;
  }
  uint32_t four = 0;
  for (uint32_t i = 0; i < 4 && at + i < count; ++i) four |= uint32_t{codes[at + i]} << (i * 8);
  return four;
}

__device__ inline void StoreCodes(uint32_t four, uint32_t lane, uint32_t count, bool even, uint8_t* codes) {
  const uint32_t at = lane * 4;
  if (even && at + 4 <= count) {
    uint16_t* const pairs = reinterpret_cast<uint16_t*>(codes + at);
    pairs[0] = static_cast<uint16_t>(four);
    pairs[1] = static_cast<uint16_t>(four >> 16);
    return;
  }
  for (uint32_t i = 0; i < 4 && at + i < count; ++i) codes[at + i] = static_cast<uint8_t>(four >> (i * 8));
}

__device__ inline uint32_t CountAt(uint64_t first, uint64_t elements, uint32_t block) {
  return elements - first < block ? static_cast<uint32_t>(elements - first) : block;
}

// `wide`: values aligned to 16 bytes; `even`: encoded aligned to 2.
__global__ void EncodeInt8(const uint32_t* in, uint64_t elements, bool wide, bool even, uint8_t* out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t blocks = (elements + math::kInt8Block - 1) / math::kInt8Block;
  for (uint64_t block = ThisThread() / kWarp; block < blocks; block += AllThreads() / kWarp) {
    const uint64_t first = block * math::kInt8Block;
    const uint32_t count = CountAt(first, elements, math::kInt8Block);
    uint8_t* const to = out + block * math::kInt8Bytes;
    const uint4 x = LoadFour(in + first, lane, count, wide);
    const uint32_t left = max(math::Magnitude(x.x), math::Magnitude(x.y));
    const uint32_t right = max(math::Magnitude(x.z), math::Magnitude(x.w));
    const uint32_t scale = math::Int8Scale(__reduce_max_sync(kAllLanes, max(left, right)));
    if (lane == 0) StoreWord(scale, to);
    const uint32_t four = math::Int8Code(x.x, scale) | math::Int8Code(x.y, scale) << 8 |
                          math::Int8Code(x.z, scale) << 16 | math::Int8Code(x.w, scale) << 24;
    StoreCodes(four, lane, count, even, to + 2);
  }
}

__global__ void DecodeInt8(const uint8_t* in, uint64_t elements, bool wide, bool even, uint32_t* out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t blocks = (elements + math::kInt8Block - 1) / math::kInt8Block;
  for (uint64_t block = ThisThread() / kWarp; block < blocks; block += AllThreads() / kWarp) {
    const uint64_t first = block * math::kInt8Block;
    const uint32_t count = CountAt(first, elements, math::kInt8Block);
    const uint8_t* const from = in + block * math::kInt8Bytes;
    const uint32_t scale = LoadWord(from);
    const uint32_t four = LoadCodes(from + 2, lane, count, even);
    const uint4 x = make_uint4(math::Int8Value(four & 0xffu, scale), math::Int8Value(four >> 8 & 0xffu, scale),
                               math::Int8Value(four >> 16 & 0xffu, scale), math::Int8Value(four >> 24, scale));
    StoreFour(x, lane, count, wide, out + first);
  }
}

// Formats of four bits --------------------------------------------------------------------------------------------

template <typename Format>
__global__ void EncodeFp4(const uint32_t* in, uint64_t elements, uint8_t* out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t blocks = (elements + math::kFp4Block - 1) / math::kFp4Block;
  for (uint64_t block = ThisThread() / kWarp; block < blocks; block += AllThreads() / kWarp) {
    const uint64_t first = block * math::kFp4Block;
    const uint32_t count = CountAt(first, elements, math::kFp4Block);
    uint8_t* const to = out + block * math::kFp4Bytes;
    const uint32_t x = lane < count ? in[first + lane] : 0;
    const uint32_t scale = math::Fp4Scale<Format>(__reduce_max_sync(kAllLanes, math::Magnitude(x)));
    const uint32_t code = math::Fp4Code<Format>(x, scale);  // 0 beyond the end
    const uint32_t next = __shfl_down_sync(kAllLanes, code, 1);
    if (lane == 0) to[0] = static_cast<uint8_t>(scale);
    if (lane % 2 == 0 && lane < count) to[1 + lane / 2] = static_cast<uint8_t>(code | next << 4);
  }
}

template <typename Format>
__global__ void DecodeFp4(const uint8_t* in, uint64_t elements, uint32_t* out) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t blocks = (elements + math::kFp4Block - 1) / math::kFp4Block;
  for (uint64_t block = ThisThread() / kWarp; block < blocks; block += AllThreads() / kWarp) {
    const uint64_t first = block * math::kFp4Block;
    if (lane >= CountAt(first, elements, math::kFp4Block)) continue;
    const uint8_t* const from = in + block * math::kFp4Bytes;
    const uint32_t code = uint32_t{from[1 + lane / 2]} >> (lane % 2 * 4) & 15u;
    out[first + lane] = math::Fp4Value<Format>(code, from[0]);
  }
}

// Launches --------------------------------------------------------------------------------------------------------

uint64_t Blocked(uint64_t elements, uint64_t block, uint64_t whole_bytes, uint64_t rest_bytes) {
  return elements / block * whole_bytes + (elements % block == 0 ? 0 : rest_bytes);
}

// Thread blocks for `items` items of `threads_an_item` threads. items >= 1.
dim3 Grid(uint64_t items, uint64_t threads_an_item) {
  const uint64_t items_a_block = kThreads / threads_an_item;
  return GridOf((items + items_a_block - 1) / items_a_block);
}

uint64_t Fours(const void* values, const void* encoded, uint64_t elements) {
  return IsAligned(values, 16) && IsAligned(encoded, 8) ? elements / 4 : 0;
}

// The useful number of threads: the rest of a wide range is at most three elements.
uint64_t PlainItems(uint64_t elements, uint64_t fours) { return std::max(fours, elements - fours * 4); }

// The distribution of the work: plain formats, four-bit blocks, int8.
struct Grids {
  uint64_t fours;
  dim3 plain, of_four_bits, of_bytes;
};
Grids GridsOf(const float* values, const void* encoded, uint64_t elements) {
  const uint64_t fours = Fours(values, encoded, elements);
  return {fours, Grid(PlainItems(elements, fours), 1), Grid((elements + math::kFp4Block - 1) / math::kFp4Block, kWarp),
          Grid((elements + math::kInt8Block - 1) / math::kInt8Block, kWarp)};
}

}  // namespace

bool EncodedBytes(atoll_gpu_codec codec, uint64_t elements, uint64_t* bytes) {
  switch (codec) {
    case ATOLL_GPU_CODEC_FP32: *bytes = elements * 4; return true;
    case ATOLL_GPU_CODEC_FP16:
    case ATOLL_GPU_CODEC_BF16: *bytes = elements * 2; return true;
    case ATOLL_GPU_CODEC_INT8:
      *bytes = Blocked(elements, math::kInt8Block, math::kInt8Bytes, 2 + elements % math::kInt8Block);
      return true;
    case ATOLL_GPU_CODEC_MXFP4:
    case ATOLL_GPU_CODEC_E3M0:
      *bytes = Blocked(elements, math::kFp4Block, math::kFp4Bytes, 1 + (elements % math::kFp4Block + 1) / 2);
      return true;
  }
  return false;
}

cudaError_t EncodeOnDevice(atoll_gpu_codec codec, const float* values, uint64_t elements, void* encoded,
                           cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  const auto* const in = reinterpret_cast<const uint32_t*>(values);
  auto* const out = static_cast<uint8_t*>(encoded);
  const auto [fours, plain, of_four_bits, of_bytes] = GridsOf(values, encoded, elements);
  switch (codec) {
    case ATOLL_GPU_CODEC_FP32: return cudaMemcpyAsync(out, in, elements * 4, cudaMemcpyDeviceToDevice, stream);
    case ATOLL_GPU_CODEC_FP16: return Launch(EncodePlain<Half>, plain, kThreads, stream, in, elements, fours, out);
    case ATOLL_GPU_CODEC_BF16: return Launch(EncodePlain<Bfloat16>, plain, kThreads, stream, in, elements, fours, out);
    case ATOLL_GPU_CODEC_INT8:
      return Launch(EncodeInt8, of_bytes, kThreads, stream, in, elements, IsAligned(in, 16), IsAligned(out, 2), out);
    case ATOLL_GPU_CODEC_MXFP4:
      return Launch(EncodeFp4<math::Mxfp4>, of_four_bits, kThreads, stream, in, elements, out);
    case ATOLL_GPU_CODEC_E3M0: return Launch(EncodeFp4<math::E3m0>, of_four_bits, kThreads, stream, in, elements, out);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t DecodeOnDevice(atoll_gpu_codec codec, const void* encoded, float* values, uint64_t elements,
                           cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  const auto* const in = static_cast<const uint8_t*>(encoded);
  auto* const out = reinterpret_cast<uint32_t*>(values);
  const auto [fours, plain, of_four_bits, of_bytes] = GridsOf(values, encoded, elements);
  switch (codec) {
    case ATOLL_GPU_CODEC_FP32: return cudaMemcpyAsync(out, in, elements * 4, cudaMemcpyDeviceToDevice, stream);
    case ATOLL_GPU_CODEC_FP16: return Launch(DecodePlain<Half>, plain, kThreads, stream, in, elements, fours, out);
    case ATOLL_GPU_CODEC_BF16: return Launch(DecodePlain<Bfloat16>, plain, kThreads, stream, in, elements, fours, out);
    case ATOLL_GPU_CODEC_INT8:
      return Launch(DecodeInt8, of_bytes, kThreads, stream, in, elements, IsAligned(out, 16), IsAligned(in, 2), out);
    case ATOLL_GPU_CODEC_MXFP4:
      return Launch(DecodeFp4<math::Mxfp4>, of_four_bits, kThreads, stream, in, elements, out);
    case ATOLL_GPU_CODEC_E3M0: return Launch(DecodeFp4<math::E3m0>, of_four_bits, kThreads, stream, in, elements, out);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace atl::gpu
