// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/oracle/oracle.h"

namespace atl::oracle {
namespace {

// Layout of a codec: elements per block, bytes of its scale, bits per code.
struct Layout {
  uint64_t block = 1, scale_bytes = 0, code_bits = 32;
};

Layout LayoutOf(CodecKind codec) {
  switch (codec) {
    case CodecKind::kFp32: break;
    case CodecKind::kFp16:
    case CodecKind::kBf16: return Layout{1, 0, 16};
    case CodecKind::kInt8: return Layout{128, 2, 8};
    case CodecKind::kMxfp4:
    case CodecKind::kE3m0: return Layout{32, 1, 4};
  }
  return Layout{};
}

uint64_t BlockBytes(const Layout& layout, uint64_t elements) {
  return layout.scale_bytes + (elements * layout.code_bits + 7) / 8;
}

// ---- numbers

uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
bool Negative(float x) { return (Bits(x) & 0x80000000u) != 0; }

uint32_t GetWord(const std::byte* in, size_t bytes) {
  uint32_t word = 0;
  for (size_t i = 0; i < bytes; ++i) word |= static_cast<uint32_t>(in[i]) << (8 * i);
  return word;
}
void PutWord(uint32_t word, size_t bytes, std::byte* out) {
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(word >> (8 * i));
}

float FromHalf(uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 31);
  const int fraction = static_cast<int>(half & 1023);
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  const int whole = exponent == 0 ? fraction : fraction + 1024;
  return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - 25);
}

uint32_t ToHalf(float x) {
  const uint32_t sign = Negative(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  const double a = std::fabs(static_cast<double>(x));
  // Spacing of the numbers around a: 2^-24 below 2^-14, then 2^-10 of the power of two below.
  const int exponent = a < std::ldexp(1.0, -14) ? -14 : std::ilogb(a);
  const double steps = std::nearbyint(std::ldexp(a, 10 - exponent));
  const uint32_t code = static_cast<uint32_t>(std::min(steps, 4096.0)) + (static_cast<uint32_t>(exponent + 14) << 10);
  return sign | std::min<uint32_t>(exponent > 15 ? 0x7bff : code, 0x7bff);
}

float FromBrain(uint32_t brain) { return std::bit_cast<float>(brain << 16); }

uint32_t ToBrain(float x) {
  const uint32_t bits = Bits(x), sign = bits >> 31 << 15;
  if (std::isnan(x)) return sign | 0x7fc0;
  if (std::isinf(x)) return sign | 0x7f80;
  const uint32_t magnitude = bits & 0x7fffffffu, kept = magnitude >> 16, lost = magnitude & 0xffffu;
  const bool up = lost > 0x8000 || (lost == 0x8000 && kept % 2 == 1);
  return sign | std::min<uint32_t>(kept + (up ? 1 : 0), 0x7f7f);
}

// ---- blocks

bool AllFinite(std::span<const float> block) {
  return std::all_of(block.begin(), block.end(), [](float x) { return std::isfinite(x); });
}

float LargestMagnitude(std::span<const float> block) {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::fabs(x));
  return largest;
}

void EncodeInt8Block(std::span<const float> block, std::byte* out) {
  const bool finite = AllFinite(block);
  uint32_t scale_bits = finite ? ToBrain(LargestMagnitude(block) / 127.0f) : 0x7fc0;
  if (finite && std::isinf(FromBrain(scale_bits) * 127.0f)) --scale_bits;
  PutWord(scale_bits, 2, out);
  const float scale = FromBrain(scale_bits);
  for (size_t i = 0; i < block.size(); ++i) {
    float code = 0;
    if (finite && scale != 0) code = std::nearbyint(std::clamp(block[i] / scale, -127.0f, 127.0f));
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(code));
  }
}

void DecodeInt8Block(const std::byte* in, std::span<float> block) {
  const float scale = FromBrain(GetWord(in, 2));
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<float>(static_cast<int8_t>(static_cast<uint8_t>(in[2 + i]))) * scale;
  }
}

// A 4-bit format: the magnitudes of codes 0 to 7, and the exponent of a block's scale.
struct FourBits {
  std::array<float, 8> magnitudes;
  int (*exponent)(float max_abs);
};

// Floor of log2(max_abs) minus `below`, plus one if max_abs over the scale exceeds `raise`.
int ScaleExponent(float max_abs, int below, double raise, int highest) {
  if (max_abs == 0) return -127;
  const int floor = std::ilogb(max_abs) - below;
  const bool raised = std::ldexp(static_cast<double>(max_abs), -std::max(floor, -127)) > raise;
  return std::clamp(floor + (raised ? 1 : 0), -127, highest);
}

int Mxfp4Exponent(float max_abs) { return ScaleExponent(max_abs, 2, 7.0, 125); }
int E3m0Exponent(float max_abs) { return ScaleExponent(max_abs, 0, 1.5, 127); }

FourBits FormatOf(CodecKind codec) {
  if (codec == CodecKind::kMxfp4) return {{0, 0.5f, 1, 1.5f, 2, 3, 4, 6}, Mxfp4Exponent};
  return {{0, 0x1p-6f, 0x1p-5f, 0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1}, E3m0Exponent};
}

// The nearest magnitude; on a tie, the even code.
uint32_t NearestCode(const std::array<float, 8>& magnitudes, double value) {
  uint32_t best = 0;
  for (uint32_t code = 1; code < magnitudes.size(); ++code) {
    const double distance = std::fabs(value - static_cast<double>(magnitudes[code]));
    const double shortest = std::fabs(value - static_cast<double>(magnitudes[best]));
    if (distance < shortest || (distance == shortest && code % 2 == 0)) best = code;
  }
  return best;
}

void EncodeFourBits(const FourBits& format, std::span<const float> block, std::byte* out) {
  std::fill_n(out + 1, (block.size() + 1) / 2, std::byte{0});
  if (!AllFinite(block)) {
    out[0] = std::byte{0xff};
    return;
  }
  const int exponent = format.exponent(LargestMagnitude(block));
  out[0] = static_cast<std::byte>(exponent + 127);
  for (size_t i = 0; i < block.size(); ++i) {
    const double scaled = std::ldexp(std::fabs(static_cast<double>(block[i])), -exponent);
    const uint32_t code = NearestCode(format.magnitudes, scaled) | (Negative(block[i]) ? 8u : 0u);
    out[1 + i / 2] |= static_cast<std::byte>(code << (i % 2 * 4));
  }
}

void DecodeFourBits(const FourBits& format, const std::byte* in, std::span<float> block) {
  const uint32_t byte = GetWord(in, 1);
  const float scale =
      byte == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(byte) - 127);
  for (size_t i = 0; i < block.size(); ++i) {
    const uint32_t code = GetWord(in + 1 + i / 2, 1) >> (i % 2 * 4) & 15u;
    const float magnitude = format.magnitudes[code & 7u];
    block[i] = ((code & 8u) != 0 ? -magnitude : magnitude) * scale;
  }
}

void EncodeBlock(CodecKind codec, std::span<const float> block, std::byte* out) {
  switch (codec) {
    case CodecKind::kFp16: return PutWord(ToHalf(block[0]), 2, out);
    case CodecKind::kBf16: return PutWord(ToBrain(block[0]), 2, out);
    case CodecKind::kInt8: return EncodeInt8Block(block, out);
    case CodecKind::kMxfp4:
    case CodecKind::kE3m0: return EncodeFourBits(FormatOf(codec), block, out);
    default: return PutWord(Bits(block[0]), 4, out);
  }
}

void DecodeBlock(CodecKind codec, const std::byte* in, std::span<float> block) {
  switch (codec) {
    case CodecKind::kFp16: block[0] = FromHalf(GetWord(in, 2)); break;
    case CodecKind::kBf16: block[0] = FromBrain(GetWord(in, 2)); break;
    case CodecKind::kInt8: return DecodeInt8Block(in, block);
    case CodecKind::kMxfp4:
    case CodecKind::kE3m0: return DecodeFourBits(FormatOf(codec), in, block);
    default: block[0] = std::bit_cast<float>(GetWord(in, 4)); break;
  }
}

}  // namespace

uint64_t EncodedBytes(CodecKind codec, uint64_t elements) {
  const Layout layout = LayoutOf(codec);
  const uint64_t rest = elements % layout.block;
  return elements / layout.block * BlockBytes(layout, layout.block) + (rest > 0 ? BlockBytes(layout, rest) : 0);
}

void DecodePiece(CodecKind codec, Bytes encoded, uint64_t first, std::span<float> out) {
  const Layout layout = LayoutOf(codec);
  const std::byte* in = encoded.data() + first / layout.block * BlockBytes(layout, layout.block);
  for (size_t at = 0; at < out.size(); at += layout.block, in += BlockBytes(layout, layout.block)) {
    DecodeBlock(codec, in, out.subspan(at, std::min<size_t>(layout.block, out.size() - at)));
  }
}

void EncodePiece(CodecKind codec, std::span<const float> in, uint64_t first, std::span<std::byte> encoded) {
  const Layout layout = LayoutOf(codec);
  std::byte* out = encoded.data() + first / layout.block * BlockBytes(layout, layout.block);
  for (size_t at = 0; at < in.size(); at += layout.block, out += BlockBytes(layout, layout.block)) {
    EncodeBlock(codec, in.subspan(at, std::min<size_t>(layout.block, in.size() - at)), out);
  }
}

}  // namespace atl::oracle
