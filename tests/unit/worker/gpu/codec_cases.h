// SPDX-License-Identifier: Apache-2.0
// Values and encodings for comparing a codec implementation with the reference: edges, ties, all
// exponents, odd sizes.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_CODEC_CASES_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_CODEC_CASES_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"

namespace atl::codec_cases {

inline constexpr std::array<CodecKind, 6> kAllCodecs = {CodecKind::kFp32, CodecKind::kFp16,  CodecKind::kBf16,
                                                        CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};

// Every sign and exponent with mantissas around a format's rounding points, including NaNs of both
// kinds, ordered so that similar magnitudes share a block.
inline std::vector<float> Sweep() {
  std::vector<uint32_t> mantissas = {0, 1, 2, 3, 0x7fffff, 0x7ffffe, 0x555555, 0x2aaaaa};
  for (uint32_t bit = 2; bit < 23; ++bit) {
    for (const uint32_t base : {0u, 0x400000u, 0x200000u, 0x600000u}) {
      for (uint32_t near = 0; near < 3; ++near) mantissas.push_back((base + (1u << bit) + near - 1) & 0x7fffff);
    }
  }
  std::vector<float> values;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint32_t mantissa : mantissas) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        values.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
      }
    }
  }
  return values;
}

// Blocks of 128, each scaled by a power of two: its largest element, then ties and near ties of
// every code below it.
inline std::vector<float> Ties() {
  constexpr std::array<float, 16> kTies = {0,    0.25f, 0.75f,   1.25f,     1.75f,     2.5f,      3.5f,      5,
                                           6.0f, 7,     0x1p-7f, 0x1.8p-6f, 0x1.8p-4f, 0x1.8p-2f, 0x1.8p-1f, 1.5f};
  std::vector<float> values;
  for (int exponent = -149; exponent <= 127; ++exponent) {
    for (size_t i = 0; i < 128; ++i) {
      const uint32_t nudge = static_cast<uint32_t>(i % 3);
      const float tie = kTies[i / 3 % 16];
      const float moved = tie == 0 ? tie : std::bit_cast<float>(std::bit_cast<uint32_t>(tie) + nudge - 1);
      const float x = i % 32 == 0 ? 1.0f + static_cast<float>(i) / 128.0f : moved * 0.25f;
      values.push_back(std::ldexp(i % 2 == 0 ? x : -x, exponent));
    }
  }
  return values;
}

// Random bits with similar exponents within 64 elements, and occasional non-finite values.
inline std::vector<float> Random(uint64_t key, size_t size) {
  Rng rng(StreamKey(key, "codec cases"));
  std::vector<float> values(size);
  uint32_t middle = 127;
  for (size_t i = 0; i < size; ++i) {
    if (i % 64 == 0) middle = static_cast<uint32_t>(rng.Below(255));
    const uint32_t word = static_cast<uint32_t>(rng());
    const uint32_t below = static_cast<uint32_t>(rng.Below(10));
    const uint32_t exponent = rng.Below(500) == 0 ? 255u : middle - (below < middle ? below : middle);
    values[i] = std::bit_cast<float>((word & 0x807fffffu) | exponent << 23);
  }
  return values;
}

// An encoding of `size` elements with random bytes.
inline std::vector<std::byte> RandomBytes(CodecKind kind, uint64_t key, size_t size) {
  Rng rng(StreamKey(key, "codec bytes"));
  std::vector<std::byte> bytes(EncodedSize(kind, size));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  return bytes;
}

// Every word of two bytes once: all of fp16 and bf16.
inline std::vector<std::byte> AllWords() {
  std::vector<std::byte> bytes;
  for (uint32_t word = 0; word < 65536; ++word) {
    bytes.push_back(static_cast<std::byte>(word));
    bytes.push_back(static_cast<std::byte>(word >> 8));
  }
  return bytes;
}

// Blocks of a block format: every scale, each with every code (half of them for int8, 0 under even
// scales). Sets `elements`.
inline std::vector<std::byte> AllScales(CodecKind kind, size_t* elements) {
  const bool words = kind == CodecKind::kInt8;
  const uint32_t scales = words ? 65536 : 256, codes = words ? 128 : 16;
  std::vector<std::byte> bytes;
  for (uint32_t scale = 0; scale < scales; ++scale) {
    bytes.push_back(static_cast<std::byte>(scale));
    if (words) bytes.push_back(static_cast<std::byte>(scale >> 8));
    for (uint32_t i = 0; i < codes; ++i) bytes.push_back(static_cast<std::byte>(i * (words ? 2 : 17) + scale % 2));
  }
  *elements = scales * size_t{words ? 128u : 32u};
  return bytes;
}

inline Bytes AsBytes(const std::vector<std::byte>& bytes) { return Bytes(bytes.data(), bytes.size()); }

inline std::vector<std::byte> ReferenceBytes(CodecKind kind, std::span<const float> values) {
  std::vector<std::byte> bytes(EncodedSize(kind, values.size()));
  Encode(kind, values, bytes);
  return bytes;
}

// As bits, so that NaN can be compared.
inline std::vector<uint32_t> BitsOfAll(std::span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) bits[i] = std::bit_cast<uint32_t>(values[i]);
  return bits;
}

inline std::vector<uint32_t> ReferenceBits(CodecKind kind, const std::vector<std::byte>& bytes, size_t elements) {
  std::vector<float> values(elements);
  Decode(kind, AsBytes(bytes), values);
  return BitsOfAll(values);
}

// The first difference of two ranges; the size of the shorter one if they do not differ.
template <typename T>
size_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return i;
}

}  // namespace atl::codec_cases

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_CODEC_CASES_H_
