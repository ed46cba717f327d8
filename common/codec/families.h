// SPDX-License-Identifier: Apache-2.0
// The form of each codec, and the functions of each family. Private to this room. The caller checks
// sizes.
#ifndef ATOLL_COMMON_CODEC_FAMILIES_H_
#define ATOLL_COMMON_CODEC_FAMILIES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "common/base/hash.h"
#include "common/plan/job_spec.h"

namespace atl::codec {

// Plain formats: two bytes an element, little-endian.
uint16_t HalfFromFloat(float x);
float FloatFromHalf(uint16_t half);
uint16_t Bfloat16FromFloat(float x);
float FloatFromBfloat16(uint16_t value);

// SIMD forms over spans (word_kernels.cc), with the same bits as the functions above.
void EncodeHalf(std::span<const float> in, std::byte* out);
void DecodeHalf(const std::byte* in, std::span<float> out);
void EncodeBfloat16(std::span<const float> in, std::byte* out);
void DecodeBfloat16(const std::byte* in, std::span<float> out);

// Block formats: each block is a scale followed by its codes; the last block may be shorter.
constexpr size_t kInt8Block = 128;  // bf16 scale, one byte an element
constexpr size_t kFp4Block = 32;    // E8M0 scale, four bits an element, the even element in the low half of the byte
constexpr size_t Int8Bytes(size_t n) { return 2 + n; }
constexpr size_t Fp4Bytes(size_t n) { return 1 + (n + 1) / 2; }

// SIMD forms (block_kernels.cc), with the same bits as the reference (namespace scalar).
void EncodeInt8(std::span<const float> in, std::byte* out);
void DecodeInt8(const std::byte* in, std::span<float> out);
void EncodeMxfp4(std::span<const float> in, std::byte* out);
void DecodeMxfp4(const std::byte* in, std::span<float> out);
void EncodeE3m0(std::span<const float> in, std::byte* out);
void DecodeE3m0(const std::byte* in, std::span<float> out);

// Returns the first byte of elements [begin, begin + elements) of an encoding. Checks that the
// range ends within the encoding, and at its end unless it consists of whole codec blocks. Defined
// in fused.cc.
const std::byte* RangeAt(CodecKind kind, Bytes encoded, uint64_t begin, size_t elements);

void EncodeFloats(std::span<const float> in, std::byte* out);
void DecodeFloats(const std::byte* in, std::span<float> out);

// An encoding: blocks of `block` elements, each of `head` bytes and then `bits` an element in whole
// bytes. The last block may be shorter.
struct CodecForm {
  CodecKind kind;
  const char* name;  // as in the job file
  size_t block, head, bits;
  void (*encode)(std::span<const float> in, std::byte* out);
  void (*decode)(const std::byte* in, std::span<float> out);
  constexpr size_t BytesOf(size_t elements_of_a_block) const { return head + (elements_of_a_block * bits + 7) / 8; }
};

// The form of `kind`, which must be in the enumeration: a row of the table in block_codecs.cc.
const CodecForm& FormOf(CodecKind kind);

// A multiple of every codec's block.
inline constexpr size_t kLargestBlock = 128;

namespace scalar {  // the reference: plain C++
void EncodeInt8(std::span<const float> in, std::byte* out);
void DecodeInt8(const std::byte* in, std::span<float> out);
void EncodeMxfp4(std::span<const float> in, std::byte* out);
void DecodeMxfp4(const std::byte* in, std::span<float> out);
void EncodeE3m0(std::span<const float> in, std::byte* out);
void DecodeE3m0(const std::byte* in, std::span<float> out);
}  // namespace scalar

// Bits of a block's bf16 scale, from its largest magnitude, which must be finite: nearest to absmax
// / 127, one step lower if 127 scales would not be finite.
uint16_t Int8Scale(float max_abs);
constexpr uint16_t kNanScale16 = 0x7fc0;
constexpr uint8_t kNanScale8 = 0xff;  // OCP Microscaling 1.0, table 7: E8M0's only NaN

// 2^exponent for -127 <= exponent <= 127.
constexpr float PowerOfTwo(int exponent) {
  if (exponent == -127) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

constexpr float E8m0Scale(uint8_t byte) {
  return byte == kNanScale8 ? std::numeric_limits<float>::quiet_NaN() : PowerOfTwo(static_cast<int>(byte) - 127);
}

// Floor of the base-2 logarithm of a finite `magnitude` >= 0; -127 for 0 and subnormal numbers.
inline int Exponent(float magnitude) { return static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> 23) - 127; }

// Exponent of a block's scale, from its largest magnitude, which must be finite. docs/design.md
// section 3: OCP's floor, plus one where absmax would exceed 7 scales. At most 125, so that six
// scales are finite.
inline int Mxfp4Exponent(float max_abs) {
  const int exponent = std::clamp(Exponent(max_abs) - 2, -127, 125);
  return exponent < 125 && max_abs * PowerOfTwo(-exponent) > 7.0f ? exponent + 1 : exponent;
}

// Exponent of the power of two nearest to absmax: floor, plus one where absmax would exceed 1.5
// scales.
inline int E3m0Exponent(float max_abs) {
  const int exponent = std::clamp(Exponent(max_abs), -127, 127);
  return exponent < 127 && max_abs * PowerOfTwo(-exponent) > 1.5f ? exponent + 1 : exponent;
}

// Values of the 4-bit codes, before scaling.
inline constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
inline constexpr float kE3m0[16] = {0,     0x1p-6f,  0x1p-5f,  0x1p-4f,  0x1p-3f,  0x1p-2f,  0x1p-1f,  1,
                                    -0.0f, -0x1p-6f, -0x1p-5f, -0x1p-4f, -0x1p-3f, -0x1p-2f, -0x1p-1f, -1};

}  // namespace atl::codec

#endif  // ATOLL_COMMON_CODEC_FAMILIES_H_
