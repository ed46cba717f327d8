// SPDX-License-Identifier: Apache-2.0
// Encoding to mxfp4 and e3m0, compiled once for each instruction set: the arithmetic of
// block_codecs.cc in lanes, for whole blocks only.
#if defined(ATOLL_COMMON_CODEC_FP4_ENCODING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_CODEC_FP4_ENCODING_INL_H_
#undef ATOLL_COMMON_CODEC_FP4_ENCODING_INL_H_
#else
#define ATOLL_COMMON_CODEC_FP4_ENCODING_INL_H_
#endif

#include <cstring>

#include "common/codec/block_kernels-inl.h"
#include "common/codec/families.h"
#include "common/codec/fp4_kernels-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

// Writes a block's scale to out[0] and sets its inverse. For a block with a non-finite value,
// writes the whole block and returns false.
template <class Format>
HWY_INLINE bool ScaleOf(uint32_t largest, std::byte* out, float& inverse) {
  if (HWY_UNLIKELY(largest >= 0x7f800000u)) {
    std::memset(out, 0, Fp4Bytes(kFp4Block));
    out[0] = std::byte{kNanScale8};
    return false;
  }
  const uint32_t scale = Format::ScaleByte(largest);
  out[0] = static_cast<std::byte>(scale);
  inverse = PowerOfTwo(127 - static_cast<int>(scale));
  return true;
}

// Returns the codes of x with sign, in the low four bits of each lane. The next 20 bits of a lane are zero.
template <class Format, class V>
HWY_INLINE hn::Vec<Unsigned> SignedCode(V x, V inverse) {
  const Unsigned d;
  const auto sign = hn::ShiftRight<28>(hn::BitCast(d, x));
  const auto code = Format::Code(hn::Mul(hn::Abs(x), inverse));
  const auto of_sign = hn::Set(d, 8);
#if HWY_TARGET == HWY_SCALAR  // where a vector of bits chooses by all of them
  return hn::Or(hn::And(of_sign, sign), hn::AndNot(of_sign, code));
#else
  return hn::IfVecThenElse(of_sign, sign, code);
#endif
}

#if HWY_TARGET <= HWY_AVX3
// Stores the codes of a block given in two vectors.
template <class Format, class V>
HWY_INLINE void StoreCodes(V first, V second, V inverse, std::byte* out) {
  // A 64-bit lane holds two codes of the first vector and, a byte higher, two of the second; these
  // are then packed to pairs.
  const Unsigned du;
  const hn::Repartition<uint64_t, Unsigned> d64;
  const hn::CappedTag<uint8_t, 16> d8;
  const auto high = hn::ShiftLeft<8>(SignedCode<Format>(second, inverse));
  const auto codes = hn::BitCast(d64, hn::IfVecThenElse(hn::Set(du, 0xff), SignedCode<Format>(first, inverse), high));
  const auto pairs = hn::TruncateTo(hn::Rebind<uint16_t, decltype(d64)>(), hn::Or(codes, hn::ShiftRight<28>(codes)));
  alignas(16) static constexpr uint8_t kInOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  hn::StoreU(hn::TableLookupBytes(hn::BitCast(d8, pairs), hn::Load(d8, kInOrder)), d8, reinterpret_cast<uint8_t*>(out));
}

// Bits of the larger magnitude in each lane of a block's two vectors.
HWY_INLINE hn::Vec<Unsigned> LargerBits(const float* block) {
  const Floats df;
  const Unsigned du;
  return hn::Max(hn::BitCast(du, hn::Abs(hn::LoadU(df, block))), hn::BitCast(du, hn::Abs(hn::LoadU(df, block + 16))));
}

template <class Format>
HWY_INLINE void EncodeFp4Block(const float* block, std::byte* out) {
  const Floats df;
  float inverse;
  if (!ScaleOf<Format>(hn::GetLane(hn::MaxOfLanes(Unsigned(), LargerBits(block))), out, inverse)) return;
  StoreCodes<Format>(hn::LoadU(df, block), hn::LoadU(df, block + 16), hn::Set(df, inverse), out + 1);
}

// Number of blocks processed together to find their scales, so that all lanes of a vector are used.
constexpr size_t kTogether = 8;

// Bits of the largest magnitude of each of these blocks: that of block i is in lane i + (i & 4),
// and again four lanes later.
HWY_INLINE hn::Vec<Unsigned> LargestOfBlocks(const float* blocks) {
  const Unsigned d;
  const hn::Repartition<uint64_t, Unsigned> d64;
  const auto of_two = [d](const float* at) {  // in lanes 0 and 2, and 1 and 3, of each 128 bits
    const auto first = LargerBits(at), second = LargerBits(at + kFp4Block);
    return hn::Max(hn::InterleaveLower(d, first, second), hn::InterleaveUpper(d, first, second));
  };
  const auto of_four = [&](const float* at) {  // each 128 bits hold a part of all four
    const auto low = hn::BitCast(d64, of_two(at)), high = hn::BitCast(d64, of_two(at + 2 * kFp4Block));
    return hn::Max(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                   hn::BitCast(d, hn::InterleaveUpper(d64, low, high)));
  };
  const auto first = of_four(blocks), second = of_four(blocks + 4 * kFp4Block);
  const auto halves = hn::Max(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
  return hn::Max(halves, hn::SwapAdjacentBlocks(halves));
}

// Encodes kTogether blocks. Returns false, without writing, when one of them contains a non-finite value.
template <class Format>
HWY_INLINE bool EncodeTogether(const float* blocks, std::byte* out) {
  const Floats df;
  const Unsigned d;
  const auto largest = LargestOfBlocks(blocks);
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(largest, hn::Set(d, 0x7f800000u))))) return false;
  const auto scales = Format::ScaleBytes(largest);
  // 2^(127 - scale); the smallest of these is subnormal.
  const auto normal = hn::ShiftLeft<23>(hn::Sub(hn::Set(d, 254), scales));
  alignas(64) uint32_t scale[16];
  alignas(64) float inverse[16];
  hn::Store(scales, d, scale);
  hn::Store(hn::BitCast(df, hn::IfThenElse(hn::Eq(scales, hn::Set(d, 254)), hn::Set(d, 0x00400000u), normal)), df,
            inverse);
  for (size_t i = 0; i < kTogether; ++i) {
    const size_t lane = i + (i & 4);
    const float* const block = blocks + i * kFp4Block;
    std::byte* const to = out + i * Fp4Bytes(kFp4Block);
    to[0] = static_cast<std::byte>(scale[lane]);
    StoreCodes<Format>(hn::LoadU(df, block), hn::LoadU(df, block + 16), hn::Set(df, inverse[lane]), to + 1);
  }
  return true;
}
#else
template <class Format>
void EncodeFp4Block(const float* block, std::byte* out) {
  float inverse;
  if (!ScaleOf<Format>(LargestBits<kFp4Block>(block), out, inverse)) return;
  const Floats df;
  alignas(16) uint8_t codes[kFp4Block];
  for (size_t i = 0; i < kFp4Block; i += hn::Lanes(df)) {
    const auto code = SignedCode<Format>(hn::LoadU(df, block + i), hn::Set(df, inverse));
    hn::StoreU(hn::U8FromU32(hn::And(code, hn::Set(Unsigned(), 15))), SmallCodes(), codes + i);
  }
  PackPairs(codes, out + 1);
}
#endif

template <class Format>
void EncodeFp4Blocks(const float* in, size_t blocks, std::byte* out) {
  size_t b = 0;
#if HWY_TARGET <= HWY_AVX3
  for (; b + kTogether <= blocks; b += kTogether) {
    const float* const from = in + b * kFp4Block;
    std::byte* const to = out + b * Fp4Bytes(kFp4Block);
    if (HWY_LIKELY(EncodeTogether<Format>(from, to))) continue;
    for (size_t i = 0; i < kTogether; ++i) EncodeFp4Block<Format>(from + i * kFp4Block, to + i * Fp4Bytes(kFp4Block));
  }
#endif
  for (; b < blocks; ++b) EncodeFp4Block<Format>(in + b * kFp4Block, out + b * Fp4Bytes(kFp4Block));
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#endif
