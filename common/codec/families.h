// What each family of codecs gives to codec.cc. Private to this room. Sizes were checked by the caller.
#ifndef ATOLL_COMMON_CODEC_FAMILIES_H_
#define ATOLL_COMMON_CODEC_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/hash.h"

namespace atl::codec {

// Plain formats: two bytes an element, little-endian.
uint16_t HalfFromFloat(float x);
float FloatFromHalf(uint16_t half);
uint16_t Bfloat16FromFloat(float x);
float FloatFromBfloat16(uint16_t value);

// Over spans, by SIMD (word_kernels.cc): the same bits as the functions above.
void EncodeHalf(std::span<const float> in, std::byte* out);
void DecodeHalf(const std::byte* in, std::span<float> out);
void EncodeBfloat16(std::span<const float> in, std::byte* out);
void DecodeBfloat16(const std::byte* in, std::span<float> out);

// Block formats: each block is its scale, then its codes; the last block holds what is left.
constexpr size_t kInt8Block = 128;  // bf16 scale, one byte an element
constexpr size_t kFp4Block = 32;    // E8M0 scale, four bits an element, the even element in the low half of the byte
constexpr size_t Int8Bytes(size_t n) { return 2 + n; }
constexpr size_t Fp4Bytes(size_t n) { return 1 + (n + 1) / 2; }

void EncodeInt8(std::span<const float> in, std::byte* out);
void DecodeInt8(const std::byte* in, std::span<float> out);
void EncodeMxfp4(std::span<const float> in, std::byte* out);
void DecodeMxfp4(const std::byte* in, std::span<float> out);
void EncodeE3m0(std::span<const float> in, std::byte* out);
void DecodeE3m0(const std::byte* in, std::span<float> out);

}  // namespace atl::codec

#endif  // ATOLL_COMMON_CODEC_FAMILIES_H_
