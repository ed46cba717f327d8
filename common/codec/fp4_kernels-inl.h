// SPDX-License-Identifier: Apache-2.0
// The formats mxfp4 and e3m0 in lanes, and their decoding, compiled once for each instruction set:
// the arithmetic of block_codecs.cc, for whole blocks only. fp4_encoding-inl.h contains the
// encoding.
#if defined(ATOLL_COMMON_CODEC_FP4_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_CODEC_FP4_KERNELS_INL_H_
#undef ATOLL_COMMON_CODEC_FP4_KERNELS_INL_H_
#else
#define ATOLL_COMMON_CODEC_FP4_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "common/codec/block_kernels-inl.h"
#include "common/codec/families.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

// Each format computes: the scale of a block from the bits of its largest magnitude; the code of a
// non-negative a (|x| / scale) in the low three bits, with the next 21 bits zero; and the magnitude
// of a code.
struct E2m1 {
  // Mxfp4Exponent + 127, from the bits of the largest magnitude: a mantissa above 7 / 4 carries
  // into the exponent.
  static uint32_t ScaleByte(uint32_t largest) { return std::clamp((largest + 0x1fffff) >> 23, 2u, 254u) - 2; }
  template <class V>
  static V ScaleBytes(V largest) {
    const Unsigned d;
    const auto exponent = hn::ShiftRight<23>(hn::Add(largest, hn::Set(d, 0x1fffff)));
    return hn::Sub(hn::Min(hn::Max(exponent, hn::Set(d, 2)), hn::Set(d, 254)), hn::Set(d, 2));
  }

  // Codes have steps of 0.5 up to 2, of 1 up to 4, and of 2 up to 6. The code is the minimum of a
  // counted in each step from the start of that step, rounded to nearest even. Near 2^23 a float
  // has no fraction, so that the addition rounds; all products are exact.
  template <class V>
  static hn::Vec<Unsigned> Code(V a) {
    const Floats df;
    const auto halves = hn::MulAdd(a, hn::Set(df, 2.0f), hn::Set(df, 0x1p23f));
    const auto ones = hn::Add(a, hn::Set(df, 0x1p23f + 2));
    const auto twos = hn::MulAdd(a, hn::Set(df, 0.5f), hn::Set(df, 0x1p23f + 4));
    const auto least = hn::Min(hn::Min(halves, ones), hn::Min(twos, hn::Set(df, 0x1p23f + 7)));
    return hn::BitCast(Unsigned(), least);
  }

  template <class V>
  static V Magnitude(V code) {  // bits of 0, 0.5, 1, 1.5, 2, 3, 4, 6
    const Ints d;
    const auto normal = hn::Add(hn::ShiftLeft<22>(code), hn::Set(d, 126 << 23));
    const auto below = hn::IfThenElseZero(hn::Gt(code, hn::Zero(d)), hn::Set(d, 126 << 23));
    return hn::IfThenElse(hn::Gt(code, hn::Set(d, 1)), normal, below);
  }

  static const float* Table() { return kE2m1; }
};

struct E3m0 {
  // E3m0Exponent + 127, from the bits of the largest magnitude: a mantissa above 3 / 2 carries into
  // the exponent. Subnormal numbers are handled separately.
  static uint32_t ScaleByte(uint32_t largest) {
    if (largest < 0x00800000u) return largest > 0x00600000u ? 1 : 0;
    return std::min((largest + 0x3fffff) >> 23, 254u);
  }

  template <class V>
  static V ScaleBytes(V largest) {
    const Unsigned d;
    const auto normal = hn::Min(hn::ShiftRight<23>(hn::Add(largest, hn::Set(d, 0x3fffff))), hn::Set(d, 254));
    const auto small = hn::IfThenElseZero(hn::Gt(largest, hn::Set(d, 0x00600000)), hn::Set(d, 1));
    return hn::IfThenElse(hn::Lt(largest, hn::Set(d, 0x00800000)), small, normal);
  }

  // From 2^-6 on, rounds to the nearest power of two, ties to the even code. Below, values above
  // 2^-7 become 2^-6.
  template <class V>
  static hn::Vec<Unsigned> Code(V a) {
    const Ints d;
    const auto bits = hn::BitCast(d, a);
    const auto odd = hn::And(hn::ShiftRight<23>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x3fffff - (120 << 23))), odd);
    const auto small = hn::IfThenElseZero(hn::Gt(bits, hn::Set(d, 120 << 23)), hn::Set(d, 1));
    const auto code = hn::IfThenElse(hn::Lt(bits, hn::Set(d, 121 << 23)), small, hn::ShiftRight<23>(rounded));
    return hn::BitCast(Unsigned(), hn::Min(code, hn::Set(d, 7)));
  }

  template <class V>
  static V Magnitude(V code) {  // bits of 0 and 2^(code - 7)
    const Ints d;
    const auto normal = hn::ShiftLeft<23>(hn::Add(code, hn::Set(d, 120)));
    return hn::IfThenElseZero(hn::Gt(code, hn::Zero(d)), normal);
  }

  static const float* Table() { return kE3m0; }
};

#if HWY_TARGET == HWY_SCALAR
// Packs the 4-bit codes of a block, one per byte, to pairs; and unpacks them.
HWY_INLINE void PackPairs(const uint8_t* codes, std::byte* out) {
  for (size_t i = 0; i < kFp4Block; i += 2) out[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
}
HWY_INLINE void UnpackPairs(const std::byte* in, uint8_t* codes) {
  for (size_t i = 0; i < kFp4Block; ++i) codes[i] = static_cast<uint8_t>(in[i / 2]) >> (i % 2 * 4) & 15;
}
#else
// Packs the 4-bit codes of a block, one per byte, to pairs; and unpacks them.
HWY_INLINE void PackPairs(const uint8_t* codes, std::byte* out) {
  const hn::CappedTag<uint8_t, 16> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  const hn::Repartition<int16_t, decltype(d8)> s16;
  const hn::Rebind<uint8_t, decltype(s16)> half;
  for (size_t i = 0; i < kFp4Block; i += hn::Lanes(d8)) {
    const auto pair = hn::BitCast(d16, hn::LoadU(d8, codes + i));
    const auto byte = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d16, 0xff));
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(s16, byte)), half, reinterpret_cast<uint8_t*>(out) + i / 2);
  }
}

HWY_INLINE void UnpackPairs(const std::byte* in, uint8_t* codes) {
  const hn::CappedTag<uint8_t, 16> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  const auto low = hn::Set(d8, 0x0f);
  const auto pairs = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(in));
  const auto even = hn::And(pairs, low);
  const auto odd = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), low);
  hn::StoreU(hn::InterleaveLower(d8, even, odd), d8, codes);
  hn::StoreU(hn::InterleaveUpper(d8, even, odd), d8, codes + 16);
}
#endif

// Factor of a block's codes. A block of zeros has scale 2^-127, and multiplications with that are
// up to a hundred times slower on some processors. The factor 0 gives the same bits there, because
// all its codes are zero.
HWY_INLINE float FactorOf(const std::byte* block) {
  static_assert(kFp4Block == 32, "two words of codes");
  if (HWY_LIKELY(block[0] != std::byte{0})) return E8m0Scale(static_cast<uint8_t>(block[0]));
  uint64_t low, high;  // not an array, which GCC would put on the stack for every block
  std::memcpy(&low, block + 1, sizeof(low));
  std::memcpy(&high, block + 1 + sizeof(low), sizeof(high));
  return ((low | high) & 0x7777777777777777u) == 0 ? 0.0f : E8m0Scale(0);
}

// Passes the decoded vectors of a block to emit(index, vector), in order.
template <class Format, class Emit>
HWY_INLINE void DecodeFp4Block(const std::byte* in, size_t at, Emit& emit) {
  const Ints d;
  const Floats df;
  const auto scale = hn::Set(df, FactorOf(in));
#if HWY_TARGET <= HWY_AVX3
  const auto values = hn::Mul(hn::LoadU(df, Format::Table()), scale);  // all sixteen values of this block
  const SmallCodes d8;
  const hn::Repartition<uint16_t, SmallCodes> d16;
  const auto pairs = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(in) + 1);
  const auto even = hn::And(pairs, hn::Set(d8, 0x0f));
  const auto odd = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), hn::Set(d8, 0x0f));
  const auto first = hn::PromoteTo(d, hn::InterleaveLower(d8, even, odd));
  const auto second = hn::PromoteTo(d, hn::InterleaveUpper(d8, even, odd));
  emit(at, hn::TableLookupLanes(values, hn::IndicesFromVec(df, first)));
  emit(at + 16, hn::TableLookupLanes(values, hn::IndicesFromVec(df, second)));
#else
  alignas(16) uint8_t codes[kFp4Block];
  UnpackPairs(in + 1, codes);
  for (size_t i = 0; i < kFp4Block; i += hn::Lanes(df)) {
    const auto code = hn::PromoteTo(d, hn::LoadU(SmallCodes(), codes + i));
    const auto sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(d, 8)));
    const auto magnitude = Format::Magnitude(hn::And(code, hn::Set(d, 7)));
    emit(at + i, hn::Mul(hn::BitCast(df, hn::Or(sign, magnitude)), scale));
  }
#endif
}

template <class Format, class Emit>
HWY_INLINE void DecodeFp4Blocks(const std::byte* in, size_t blocks, Emit& emit) {
  for (size_t b = 0; b < blocks; ++b) DecodeFp4Block<Format>(in + b * Fp4Bytes(kFp4Block), b * kFp4Block, emit);
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#endif
