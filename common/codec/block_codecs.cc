// SPDX-License-Identifier: Apache-2.0
// int8, mxfp4 and e3m0: blocks of codes with a shared scale. This is the reference.
// block_kernels-inl.h and the two fp4 files next to it compute the same in SIMD lanes. At the end: the
// table of all codecs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "common/base/check.h"
#include "common/codec/families.h"

namespace atl::codec {
namespace {

constexpr float kRoundToInteger = 0x1.8p23f;

struct Range {
  float max_abs = 0;
  bool finite = true;
};

Range RangeOf(std::span<const float> block) {
  uint32_t largest = 0;  // magnitudes are ordered like their bits, and every NaN is above infinity
  for (const float x : block) largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
  return {std::bit_cast<float>(largest), largest < 0x7f800000u};
}

uint32_t SignBit(float x) { return std::bit_cast<uint32_t>(x) >> 31 << 3; }

// Code of x / scale: the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, ties to the even code, 6 if above; sign in bit 3.
uint32_t E2m1Code(float x, float inverse_scale) {
  const float a = std::fabs(x) * inverse_scale;
  const int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
  return SignBit(x) | static_cast<uint32_t>(code);
}

// Code of x / scale: the nearest of 0 and 2^(code - 7), ties to the even code, 1 if above; sign in bit 3.
uint32_t E3m0Code(float x, float inverse_scale) {
  const float a = std::fabs(x) * inverse_scale;
  const int code = (a > 0x1p-7f) + (a >= 0x1.8p-6f) + (a > 0x1.8p-5f) + (a >= 0x1.8p-4f) + (a > 0x1.8p-3f) +
                   (a >= 0x1.8p-2f) + (a > 0x1.8p-1f);
  return SignBit(x) | static_cast<uint32_t>(code);
}

template <int (*ScaleExponent)(float), uint32_t (*Code)(float, float)>
void EncodeFp4(std::span<const float> in, std::byte* out) {
  for (size_t at = 0; at < in.size(); at += kFp4Block, out += Fp4Bytes(kFp4Block)) {
    const std::span<const float> block = in.subspan(at, std::min(kFp4Block, in.size() - at));
    const Range range = RangeOf(block);
    std::memset(out, 0, Fp4Bytes(block.size()));
    if (!range.finite) {
      out[0] = std::byte{kNanScale8};
      continue;
    }
    const int exponent = ScaleExponent(range.max_abs);
    out[0] = static_cast<std::byte>(exponent + 127);
    const float inverse = PowerOfTwo(-exponent);
    for (size_t i = 0; i < block.size(); ++i) {
      out[1 + i / 2] |= static_cast<std::byte>(Code(block[i], inverse) << (i % 2 * 4));
    }
  }
}

void DecodeFp4(const float* table, const std::byte* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += kFp4Block, in += Fp4Bytes(kFp4Block)) {
    const std::span<float> block = out.subspan(at, std::min(kFp4Block, out.size() - at));
    const float scale = E8m0Scale(static_cast<uint8_t>(in[0]));
    for (size_t i = 0; i < block.size(); ++i) {
      const uint32_t pair = static_cast<uint32_t>(in[1 + i / 2]);
      block[i] = table[pair >> (i % 2 * 4) & 15u] * scale;
    }
  }
}

}  // namespace

// bf16 value nearest to absmax / 127, one step lower if 127 scales would not be finite.
uint16_t Int8Scale(float max_abs) {
  uint16_t scale = Bfloat16FromFloat(max_abs / 127.0f);
  if (!std::isfinite(FloatFromBfloat16(scale) * 127.0f)) --scale;
  return scale;
}

namespace scalar {

void EncodeInt8(std::span<const float> in, std::byte* out) {
  for (size_t at = 0; at < in.size(); at += kInt8Block, out += Int8Bytes(kInt8Block)) {
    const std::span<const float> block = in.subspan(at, std::min(kInt8Block, in.size() - at));
    const Range range = RangeOf(block);
    const uint16_t scale_bits = range.finite ? Int8Scale(range.max_abs) : kNanScale16;
    const float scale = FloatFromBfloat16(scale_bits);
    std::memcpy(out, &scale_bits, 2);
    std::memset(out + 2, 0, block.size());
    if (!range.finite || scale == 0) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      const float bounded = std::clamp(block[i] / scale, -127.0f, 127.0f);
      const float code = (bounded + kRoundToInteger) - kRoundToInteger;
      out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(code));
    }
  }
}

void DecodeInt8(const std::byte* in, std::span<float> out) {
  for (size_t at = 0; at < out.size(); at += kInt8Block, in += Int8Bytes(kInt8Block)) {
    const std::span<float> block = out.subspan(at, std::min(kInt8Block, out.size() - at));
    uint16_t scale_bits;
    std::memcpy(&scale_bits, in, 2);
    const float scale = FloatFromBfloat16(scale_bits);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<float>(static_cast<int8_t>(in[2 + i])) * scale;
  }
}

void EncodeMxfp4(std::span<const float> in, std::byte* out) { EncodeFp4<Mxfp4Exponent, E2m1Code>(in, out); }
void DecodeMxfp4(const std::byte* in, std::span<float> out) { DecodeFp4(kE2m1, in, out); }
void EncodeE3m0(std::span<const float> in, std::byte* out) { EncodeFp4<E3m0Exponent, E3m0Code>(in, out); }
void DecodeE3m0(const std::byte* in, std::span<float> out) { DecodeFp4(kE3m0, in, out); }

}  // namespace scalar

namespace {

// By CodecKind. A codec needs a row. Code for a CPU's widest vectors (fused.cc, weighted_sum.cc) and
// for GPUs is optional.
constexpr CodecForm kForms[] = {
    {CodecKind::kFp32, "fp32", 1, 0, 32, EncodeFloats, DecodeFloats},
    {CodecKind::kFp16, "fp16", 1, 0, 16, EncodeHalf, DecodeHalf},
    {CodecKind::kBf16, "bf16", 1, 0, 16, EncodeBfloat16, DecodeBfloat16},
    {CodecKind::kInt8, "int8", kInt8Block, 2, 8, EncodeInt8, DecodeInt8},
    {CodecKind::kMxfp4, "mxfp4", kFp4Block, 1, 4, EncodeMxfp4, DecodeMxfp4},
    {CodecKind::kE3m0, "e3m0", kFp4Block, 1, 4, EncodeE3m0, DecodeE3m0},
};

static_assert(std::size(kForms) == std::size(kCodecKinds) && [] {
  for (size_t i = 0; i < std::size(kForms); ++i) {
    if (kForms[i].kind != kCodecKinds[i] || kCodecKinds[i] != static_cast<CodecKind>(i)) return false;
    if (kLargestBlock % kForms[i].block != 0) return false;
  }
  return true;
}());

}  // namespace

const CodecForm& FormOf(CodecKind kind) {
  const auto index = static_cast<size_t>(kind);
  ATOLL_CHECK(index < std::size(kForms), "a codec outside the enumeration");
  return kForms[index];
}

}  // namespace atl::codec
