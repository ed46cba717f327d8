// SIMD forms of mxfp4 and e3m0, compiled once for each instruction set: the arithmetic of block_codecs.cc in lanes,
// whole blocks only.
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

// Code of a non-negative a (|x| / scale), and the magnitude of a code.
struct E2m1 {
  // Mxfp4Exponent + 127, of the bits of the largest magnitude: a mantissa beyond 7 / 4 carries into the exponent.
  static uint32_t ScaleByte(uint32_t largest) { return std::clamp((largest + 0x1fffff) >> 23, 2u, 254u) - 2; }

  // From 1 on one bit of mantissa is kept, to nearest even; below, adding 2^22 rounds to halves.
  template <class V>
  static hn::Vec<Ints> Code(V a) {
    const Ints d;
    const Floats df;
    const auto bits = hn::BitCast(d, a);
    const auto odd = hn::And(hn::ShiftRight<22>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x1fffff - (252 << 22))), odd);
    const auto halves = hn::Sub(hn::BitCast(d, hn::Add(a, hn::Set(df, 0x1p22f))), hn::Set(d, 0x4a800000));
    const auto code = hn::IfThenElse(hn::Lt(bits, hn::Set(d, 0x3f800000)), halves, hn::ShiftRight<22>(rounded));
    return hn::Min(code, hn::Set(d, 7));
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
  // E3m0Exponent + 127, of the bits of the largest magnitude: a mantissa beyond 3 / 2 carries into the exponent, but
  // subnormal numbers have none.
  static uint32_t ScaleByte(uint32_t largest) {
    if (largest < 0x00800000u) return largest > 0x00600000u ? 1 : 0;
    return std::min((largest + 0x3fffff) >> 23, 254u);
  }

  // From 2^-6 on no bit of mantissa is kept, to the nearest and then the even code; below, above 2^-7 is 2^-6.
  template <class V>
  static hn::Vec<Ints> Code(V a) {
    const Ints d;
    const auto bits = hn::BitCast(d, a);
    const auto odd = hn::And(hn::ShiftRight<23>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x3fffff - (120 << 23))), odd);
    const auto small = hn::IfThenElseZero(hn::Gt(bits, hn::Set(d, 120 << 23)), hn::Set(d, 1));
    const auto code = hn::IfThenElse(hn::Lt(bits, hn::Set(d, 121 << 23)), small, hn::ShiftRight<23>(rounded));
    return hn::Min(code, hn::Set(d, 7));
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
// Four-bit codes of a block, one a byte, to pairs; and back.
HWY_INLINE void PackPairs(const uint8_t* codes, std::byte* out) {
  for (size_t i = 0; i < kFp4Block; i += 2) out[i / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
}
HWY_INLINE void UnpackPairs(const std::byte* in, uint8_t* codes) {
  for (size_t i = 0; i < kFp4Block; ++i) codes[i] = static_cast<uint8_t>(in[i / 2]) >> (i % 2 * 4) & 15;
}
#else
// Four-bit codes of a block, one a byte, to pairs; and back.
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

// A block's scale goes to out[0]; its inverse comes back. False where the block holds what is not finite: it is written
// then.
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

// Codes of x, sign included, one a lane.
template <class Format, class V>
HWY_INLINE hn::Vec<Unsigned> SignedCode(V x, V inverse) {
  const Unsigned d;
  const auto sign = hn::And(hn::ShiftRight<28>(hn::BitCast(d, x)), hn::Set(d, 8));
  return hn::Or(hn::BitCast(d, Format::Code(hn::Mul(hn::Abs(x), inverse))), sign);
}

#if HWY_TARGET <= HWY_AVX3
// The whole block in two vectors.
template <class Format>
HWY_INLINE void EncodeFp4Block(const float* block, std::byte* out) {
  const Floats df;
  const Unsigned du;
  const auto first = hn::LoadU(df, block), second = hn::LoadU(df, block + 16);
  const auto largest = hn::Max(hn::BitCast(du, hn::Abs(first)), hn::BitCast(du, hn::Abs(second)));
  float inverse;
  if (!ScaleOf<Format>(hn::GetLane(hn::MaxOfLanes(du, largest)), out, inverse)) return;
  const auto scaled_by = hn::Set(df, inverse);
  // Of a lane of 64 bits: two codes of the first vector and, a byte higher, two of the second; then the same as pairs.
  const hn::Repartition<uint64_t, Unsigned> d64;
  const hn::CappedTag<uint8_t, 16> d8;
  const auto high = hn::ShiftLeft<8>(SignedCode<Format>(second, scaled_by));
  const auto codes = hn::BitCast(d64, hn::Or(SignedCode<Format>(first, scaled_by), high));
  const auto pairs = hn::TruncateTo(hn::Rebind<uint16_t, decltype(d64)>(), hn::Or(codes, hn::ShiftRight<28>(codes)));
  alignas(16) static constexpr uint8_t kInOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  hn::StoreU(hn::TableLookupBytes(hn::BitCast(d8, pairs), hn::Load(d8, kInOrder)), d8,
             reinterpret_cast<uint8_t*>(out) + 1);
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
    hn::StoreU(hn::U8FromU32(code), SmallCodes(), codes + i);
  }
  PackPairs(codes, out + 1);
}
#endif

// The factor of a block's codes. That of zeros is 2^-127, products with which take some processors a hundred times as
// long: with 0 they have the same bits, since nothing but zeros is looked up among them.
HWY_INLINE float FactorOf(const std::byte* block) {
  static_assert(kFp4Block == 32, "two words of codes");
  if (HWY_LIKELY(block[0] != std::byte{0})) return E8m0Scale(static_cast<uint8_t>(block[0]));
  uint64_t low, high;  // not an array, which GCC would lay on the stack for every block
  std::memcpy(&low, block + 1, sizeof(low));
  std::memcpy(&high, block + 1 + sizeof(low), sizeof(high));
  return ((low | high) & 0x7777777777777777u) == 0 ? 0.0f : E8m0Scale(0);
}

// Gives the decoded vectors of a block to emit(index, vector), in order.
template <class Format, class Emit>
HWY_INLINE void DecodeFp4Block(const std::byte* in, size_t at, Emit& emit) {
  const Ints d;
  const Floats df;
  const auto scale = hn::Set(df, FactorOf(in));
#if HWY_TARGET <= HWY_AVX3
  const auto values = hn::Mul(hn::LoadU(df, Format::Table()), scale);  // all sixteen of this block
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

template <class Format>
void EncodeFp4Blocks(const float* in, size_t blocks, std::byte* out) {
  for (size_t b = 0; b < blocks; ++b) EncodeFp4Block<Format>(in + b * kFp4Block, out + b * Fp4Bytes(kFp4Block));
}

template <class Format, class Emit>
HWY_INLINE void DecodeFp4Blocks(const std::byte* in, size_t blocks, Emit& emit) {
  for (size_t b = 0; b < blocks; ++b) DecodeFp4Block<Format>(in + b * Fp4Bytes(kFp4Block), b * kFp4Block, emit);
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#endif
