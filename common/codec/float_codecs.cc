// SPDX-License-Identifier: Apache-2.0
// fp32 unchanged; fp16 and bf16 without the CPU's conversion instructions: the same bits on every CPU. This is the
// reference; word_kernels-inl.h computes the same in SIMD lanes.
#include <bit>
#include <cstring>

#include "common/codec/families.h"

namespace atl::codec {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kHalfOverflow = 0x477ff000u;  // 65520: from here on rounding would give infinity
constexpr uint32_t kHalfSmallest = 0x38800000u;  // 2^-14: the smallest normal fp16

}  // namespace

uint16_t HalfFromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t mag = bits & kMagnitude;
  if (mag > kInfinity) return static_cast<uint16_t>(sign | 0x7e00u);
  if (mag == kInfinity) return static_cast<uint16_t>(sign | 0x7c00u);
  if (mag >= kHalfOverflow) return static_cast<uint16_t>(sign | 0x7bffu);
  if (mag < kHalfSmallest) {
    // The last place of 0.5 is 2^-24, fp16's subnormal unit, so that the addition rounds correctly.
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(mag) + 0.5f) - 0x3f000000u));
  }
  mag += 0xfffu + (mag >> 13 & 1u);  // half a unit, less one if the kept part is even
  return static_cast<uint16_t>(sign | (mag - 0x38000000u) >> 13);
}

float FloatFromHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t mag = (half & 0x7fffu) << 13;
  if ((half & 0x7c00u) == 0x7c00u) return std::bit_cast<float>(sign | mag | kInfinity);
  const float value = std::bit_cast<float>(mag) * 0x1p112f;  // exact: changes the exponent bias, also for subnormals
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

uint16_t Bfloat16FromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t mag = bits & kMagnitude;
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (mag > kInfinity) return static_cast<uint16_t>(sign | 0x7fc0u);
  if (mag == kInfinity) return static_cast<uint16_t>(sign | 0x7f80u);
  const uint32_t rounded = (mag + 0x7fffu + (mag >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>(sign | (rounded >= 0x7f80u ? 0x7f7fu : rounded));
}

float FloatFromBfloat16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

void EncodeFloats(std::span<const float> in, std::byte* out) { std::memcpy(out, in.data(), in.size_bytes()); }
void DecodeFloats(const std::byte* in, std::span<float> out) { std::memcpy(out.data(), in, out.size_bytes()); }

}  // namespace atl::codec
