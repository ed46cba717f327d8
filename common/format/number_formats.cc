// SPDX-License-Identifier: Apache-2.0
#include "common/format/number_formats.h"

#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace atl {
namespace {

constexpr uint32_t kFloatExponentBits = 0x7f800000u;

// Encodes a value below 2^-14 in fp16: the mantissa counts multiples of 2^-24.
uint16_t SubnormalHalf(uint32_t sign, uint32_t magnitude) {
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<uint16_t>(sign);  // below 2^-25: rounds to zero
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126 - exponent;  // from the 24-bit mantissa to units of 2^-24
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  uint32_t value = mantissa >> shift;
  if (rest > half || (rest == half && (value & 1u))) ++value;
  return static_cast<uint16_t>(sign | value);
}

}  // namespace

size_t NumberBytes(NumberType type) { return type == NumberType::kF32 ? 4 : 2; }

std::string NumberTypeName(NumberType type) {
  switch (type) {
    case NumberType::kF32: return "F32";
    case NumberType::kF16: return "F16";
    case NumberType::kBF16: return "BF16";
  }
  return "F32";
}

uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > kFloatExponentBits) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float FloatFromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t HalfFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > kFloatExponentBits) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and more: infinity
  if (magnitude < 0x38800000u) return SubnormalHalf(sign, magnitude);
  // Rebias 127 -> 15; a carry out of the mantissa raises the exponent, past 65504 up to infinity.
  const uint32_t rebased = magnitude - (112u << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

float FloatFromHalf(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kFloatExponentBits | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float value = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -value : value;
}

void DecodeNumbers(NumberType type, Bytes raw, std::span<float> values) {
  ATOLL_CHECK(raw.size() == values.size() * NumberBytes(type), "raw bytes and values are of one length");
  if (type == NumberType::kF32) {
    if (!values.empty()) std::memcpy(values.data(), raw.data(), raw.size());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, sizeof(bits));
    values[i] = type == NumberType::kF16 ? FloatFromHalf(bits) : FloatFromBf16(bits);
  }
}

void EncodeNumbers(NumberType type, std::span<const float> values, std::span<std::byte> raw) {
  ATOLL_CHECK(raw.size() == values.size() * NumberBytes(type), "raw bytes and values are of one length");
  if (type == NumberType::kF32) {
    if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = type == NumberType::kF16 ? HalfFromFloat(values[i]) : Bf16FromFloat(values[i]);
    std::memcpy(raw.data() + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace atl
