// SPDX-License-Identifier: Apache-2.0
// SIMD forms of fp16 and bf16, compiled once for each instruction set by the including file: the results of
// float_codecs.cc in lanes. The scalar functions of float_codecs.cc handle the tails.
#if defined(ATOLL_COMMON_CODEC_WORD_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_CODEC_WORD_KERNELS_INL_H_
#undef ATOLL_COMMON_CODEC_WORD_KERNELS_INL_H_
#else
#define ATOLL_COMMON_CODEC_WORD_KERNELS_INL_H_
#endif

#include <cstring>
#include <span>

#include "common/codec/families.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using WordFloats = hn::CappedTag<float, 16>;
using WordInts = hn::Rebind<int32_t, WordFloats>;
using Words = hn::Rebind<uint16_t, WordFloats>;

struct Half {
  static uint16_t FromFloat(float x) { return HalfFromFloat(x); }
  static float ToFloat(uint16_t word) { return FloatFromHalf(word); }

  template <class V>
  static V Encode(V magnitude) {
    const WordInts d;
    const WordFloats df;
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(d, 0xfff - 0x38000000)), odd);
    const auto shifted = hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f)));
    const auto subnormal = hn::Sub(shifted, hn::Set(d, 0x3f000000));
    auto word = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x38800000)), subnormal, hn::ShiftRight<13>(rounded));
    word = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x477fefff)), hn::Set(d, 0x7bff), word);
    word = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7c00), word);
    return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7e00), word);
  }

  template <class V>
  static hn::Vec<WordFloats> Decode(V word) {
    const WordInts d;
    const WordFloats df;
    const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(d, 0x8000)));
    const auto units = hn::And(word, hn::Set(d, 0x7fff));
    const auto magnitude = hn::ShiftLeft<13>(units);
    // An fp16 value below 2^-14 is an integer times 2^-24, and is computed so: multiplications with
    // subnormal fp32 are up to a hundred times slower on some processors.
    const auto small = hn::BitCast(d, hn::Mul(hn::ConvertTo(df, units), hn::Set(df, 0x1p-24f)));
    const auto normal = hn::Add(magnitude, hn::Set(d, 112 << 23));
    const auto special = hn::Or(magnitude, hn::Set(d, 0x7f800000));
    const auto finite = hn::IfThenElse(hn::Lt(units, hn::Set(d, 0x400)), small, normal);
    return hn::BitCast(df, hn::Or(sign, hn::IfThenElse(hn::Gt(units, hn::Set(d, 0x7bff)), special, finite)));
  }
};

struct Bfloat16 {
  static uint16_t FromFloat(float x) { return Bfloat16FromFloat(x); }
  static float ToFloat(uint16_t word) { return FloatFromBfloat16(word); }

  template <class V>
  static V Encode(V magnitude) {
    const WordInts d;
    const auto odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(d, 1));
    const auto bounded = hn::Min(magnitude, hn::Set(d, 0x7f7fffff));  // keeps the sum below the sign bit for any NaN
    auto word = hn::ShiftRight<16>(hn::Add(hn::Add(bounded, hn::Set(d, 0x7fff)), odd));
    word = hn::Min(word, hn::Set(d, 0x7f7f));
    word = hn::IfThenElse(hn::Eq(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7f80), word);
    return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7fc0), word);
  }

  template <class V>
  static hn::Vec<WordFloats> Decode(V word) {
    return hn::BitCast(WordFloats(), hn::ShiftLeft<16>(word));
  }
};

template <class Format>
HWY_INLINE void EncodeWords(std::span<const float> span, std::byte* out) {
  const float* in = span.data();
  const size_t n = span.size();
  const WordInts d;
  const WordFloats df;
  const Words dw;
  size_t i = 0;
  for (; i + hn::Lanes(df) <= n; i += hn::Lanes(df)) {
    const auto bits = hn::BitCast(d, hn::LoadU(df, in + i));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    const auto word = hn::Or(sign, Format::Encode(hn::And(bits, hn::Set(d, 0x7fffffff))));
    hn::StoreU(hn::DemoteTo(dw, word), dw, reinterpret_cast<uint16_t*>(out + 2 * i));
  }
  for (; i < n; ++i) {
    const uint16_t word = Format::FromFloat(in[i]);
    std::memcpy(out + 2 * i, &word, 2);
  }
}

// Passes whole decoded vectors to emit(index, vector), in order. Returns the number of elements
// decoded.
template <class Format, class Emit>
HWY_INLINE size_t DecodeWholeWords(const std::byte* in, size_t n, Emit& emit) {
  const WordInts d;
  const WordFloats df;
  const Words dw;
  size_t i = 0;
  for (; i + hn::Lanes(df) <= n; i += hn::Lanes(df)) {
    emit(i, Format::Decode(hn::PromoteTo(d, hn::LoadU(dw, reinterpret_cast<const uint16_t*>(in + 2 * i)))));
  }
  return i;
}

struct KeepWordsAt {
  float* out;
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) const {
    hn::StoreU(x, WordFloats(), out + i);
  }
};

template <class Format>
HWY_INLINE void DecodeWords(const std::byte* in, std::span<float> out) {
  KeepWordsAt keep{out.data()};
  for (size_t i = DecodeWholeWords<Format>(in, out.size(), keep); i < out.size(); ++i) {
    uint16_t word;
    std::memcpy(&word, in + 2 * i, 2);
    out[i] = Format::ToFloat(word);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#endif
