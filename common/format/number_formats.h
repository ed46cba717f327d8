// SPDX-License-Identifier: Apache-2.0
// The three number formats of checkpoints and their conversion to and from fp32, in plain C++, so
// that every machine computes the same bits. Conversions round to nearest, ties to even. NaN stays
// NaN; fp32 values beyond the range of fp16 or bf16 become infinity (common/codec saturates instead).
#ifndef ATOLL_COMMON_FORMAT_NUMBER_FORMATS_H_
#define ATOLL_COMMON_FORMAT_NUMBER_FORMATS_H_

#include <cstdint>
#include <span>
#include <string>

#include "common/base/hash.h"

namespace atl {

// The enumerators' values are not stored; a safetensors header contains the names.
enum class NumberType { kF32, kF16, kBF16 };

// 4 or 2.
size_t NumberBytes(NumberType type);
// Names in safetensors: "F32", "F16", "BF16".
std::string NumberTypeName(NumberType type);

uint16_t Bf16FromFloat(float value);
float FloatFromBf16(uint16_t bits);
uint16_t HalfFromFloat(float value);
float FloatFromHalf(uint16_t bits);

// Little-endian elements <-> floats. `raw.size()` must be `values.size() * NumberBytes(type)`.
void DecodeNumbers(NumberType type, Bytes raw, std::span<float> values);
void EncodeNumbers(NumberType type, std::span<const float> values, std::span<std::byte> raw);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_NUMBER_FORMATS_H_
