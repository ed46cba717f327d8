// SPDX-License-Identifier: Apache-2.0
// SIMD implementation of int8, compiled once for each instruction set: the arithmetic of
// block_codecs.cc in lanes, for whole blocks only. Declarations shared with the 4-bit formats
// (fp4_kernels-inl.h, fp4_encoding-inl.h) come first.
#if defined(ATOLL_COMMON_CODEC_BLOCK_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_CODEC_BLOCK_KERNELS_INL_H_
#undef ATOLL_COMMON_CODEC_BLOCK_KERNELS_INL_H_
#else
#define ATOLL_COMMON_CODEC_BLOCK_KERNELS_INL_H_
#endif

#include <bit>
#include <cstring>

#include "common/codec/families.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Ints = hn::Rebind<int32_t, Floats>;
using Unsigned = hn::Rebind<uint32_t, Floats>;
using SmallCodes = hn::Rebind<uint8_t, Floats>;
using SignedCodes = hn::Rebind<int8_t, Floats>;

// Returns the bits of the largest magnitude. Bits are ordered like magnitudes, and every NaN is
// above infinity.
template <size_t kBlock>
HWY_INLINE uint32_t LargestBits(const float* block) {
  const Unsigned d;
  const Floats df;
  const auto mask = hn::Set(d, 0x7fffffffu);
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < kBlock; i += hn::Lanes(df)) {
    largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(df, block + i)), mask));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

inline void EncodeInt8Block(const float* block, std::byte* out) {
  const uint32_t largest = LargestBits<kInt8Block>(block);
  const bool finite = largest < 0x7f800000u;
  const uint16_t scale_bits = finite ? Int8Scale(std::bit_cast<float>(largest)) : kNanScale16;
  std::memcpy(out, &scale_bits, 2);
  if (!finite || scale_bits == 0) {
    std::memset(out + 2, 0, kInt8Block);
    return;
  }
  const Floats df;
  const auto scale = hn::Set(df, FloatFromBfloat16(scale_bits));
  const auto bound = hn::Set(df, 127.0f);
  for (size_t i = 0; i < kInt8Block; i += hn::Lanes(df)) {
    const auto quotient = hn::Div(hn::LoadU(df, block + i), scale);
    const auto bounded = hn::Max(hn::Neg(bound), hn::Min(quotient, bound));
    const auto code = hn::DemoteTo(SignedCodes(), hn::NearestInt(bounded));
    hn::StoreU(code, SignedCodes(), reinterpret_cast<int8_t*>(out) + 2 + i);
  }
}

template <class Emit>
HWY_INLINE void DecodeInt8Blocks(const std::byte* in, size_t blocks, Emit& emit) {
  const Ints d;
  const Floats df;
  for (size_t b = 0; b < blocks; ++b, in += Int8Bytes(kInt8Block)) {
    uint16_t scale_bits;
    std::memcpy(&scale_bits, in, 2);
    const auto scale = hn::Set(df, FloatFromBfloat16(scale_bits));
    for (size_t i = 0; i < kInt8Block; i += hn::Lanes(df)) {
      const auto code = hn::LoadU(SignedCodes(), reinterpret_cast<const int8_t*>(in) + 2 + i);
      emit(b * kInt8Block + i, hn::Mul(hn::ConvertTo(df, hn::PromoteTo(d, code)), scale));
    }
  }
}

// Stores the decoded values.
struct KeepAt {
  float* out;
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) const {
    hn::StoreU(x, Floats(), out + i);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#endif
