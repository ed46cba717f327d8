// SPDX-License-Identifier: Apache-2.0
// Weighted sums of many encodings.
#include "common/codec/families.h"
#include "common/codec/fused.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/weighted_sum.cc"
// foreach_target.h must come before the kernels.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "hwy/cache_control.h"
#include "common/codec/block_kernels-inl.h"
#include "common/codec/fp4_kernels-inl.h"
#include "common/codec/word_kernels-inl.h"
// clang-format on

#ifndef ATOLL_COMMON_CODEC_WEIGHTED_SUM_ONCE_
#define ATOLL_COMMON_CODEC_WEIGHTED_SUM_ONCE_
#include <algorithm>
#include <array>
#include <cmath>

namespace atl::codec {
// An input of a weighted sum: the first byte of its elements in the range, and its weight.
struct SumInput {
  const std::byte* bytes = nullptr;
  float weight = 0;
};

// Number of inputs read in parallel, enough to saturate memory. With inputs of equal size, more
// would compete for the same few cache lines.
constexpr size_t kStreams = 8;

// Scales of 4-bit blocks.
constexpr auto kE8m0Scales = [] {
  std::array<float, 256> scales{};
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = E8m0Scale(static_cast<uint8_t>(i));
  return scales;
}();
}  // namespace atl::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
// All codes of a 4-bit format times a weight, to be multiplied by a block's scale afterwards. Multiplication by a
// power of two is exact, so that the products have the bits of (code * scale) * weight, except at extreme magnitudes:
// there Of multiplies in that order.
template <class Format>
struct WeightedCodes {
  static constexpr int kFar = 60;  // bound on the exponents of scale and weight
  alignas(64) float products[16];
  float weight;
  bool weight_is_near;
  HWY_INLINE void Set(float by) {
    weight = by;
    hn::Store(hn::Mul(hn::LoadU(Floats(), Format::Table()), hn::Set(Floats(), weight)), Floats(), products);
    weight_is_near = std::abs(weight) > PowerOfTwo(-kFar) && std::abs(weight) < PowerOfTwo(kFar);
  }
  HWY_INLINE hn::Vec<Floats> Of(const std::byte* block) const {
    const Floats d;
    const auto scale = static_cast<unsigned>(block[0]);
    if (HWY_LIKELY(weight_is_near && scale - (127 - kFar) <= 2 * kFar)) {
      return hn::Mul(hn::Load(d, products), hn::Set(d, kE8m0Scales[scale]));
    }
    return hn::Mul(hn::Mul(hn::LoadU(d, Format::Table()), hn::Set(d, FactorOf(block))), hn::Set(d, weight));
  }
};

// Weighted sum of 4-bit formats, one block after another with the sums in registers: even and odd
// elements separately, as in the codes. Products with a weight are looked up, because a block has
// only sixteen. `out` contains the partial sum, unless the first input is included. Until the last
// input is included, the sixteen even elements of a block are stored before its odd ones.
template <class Format>
void SumFp4(const SumInput* inputs, size_t count, bool first, bool last, size_t blocks, float* out) {
  const Floats df;
  const Ints d;
  const auto nibble = hn::Set(d, 0x0f);
  const auto none = hn::Set(df, -0.0f);  // neutral: adding -0 keeps the bits of any value
  WeightedCodes<Format> weighted[kStreams];
  for (size_t i = 0; i < count; ++i) weighted[i].Set(inputs[i].weight);
  for (size_t b = 0; b < blocks; ++b) {
    float* const sums = out + b * kFp4Block;
    auto even = first ? none : hn::LoadU(df, sums);
    auto odd = first ? none : hn::LoadU(df, sums + hn::Lanes(df));
    for (size_t i = 0; i < count; ++i) {
      const std::byte* in = inputs[i].bytes + b * Fp4Bytes(kFp4Block);
      hwy::Prefetch(in + Fp4Bytes(kFp4Block) * (kCodecBlock / kFp4Block));
      const auto products = weighted[i].Of(in);
      const auto pairs = hn::PromoteTo(d, hn::LoadU(SmallCodes(), reinterpret_cast<const uint8_t*>(in) + 1));
      even = hn::Add(even, hn::TableLookupLanes(products, hn::IndicesFromVec(df, hn::And(pairs, nibble))));
      odd = hn::Add(odd, hn::TableLookupLanes(products, hn::IndicesFromVec(df, hn::ShiftRight<4>(pairs))));
    }
    if (last) {
      hn::StoreInterleaved2(even, odd, df, sums);
    } else {
      hn::StoreU(even, df, sums);
      hn::StoreU(odd, df, sums + hn::Lanes(df));
    }
  }
}

// Readers of the other formats, one vector at a time, for kInt8Block elements.
struct WholeFloats {
  const std::byte* in;
  HWY_INLINE WholeFloats(const std::byte* bytes, size_t begin) : in(bytes + 4 * begin) {}
  HWY_INLINE hn::Vec<Floats> At(size_t i) const { return hn::LoadU(Floats(), reinterpret_cast<const float*>(in) + i); }
};

template <class Format>
struct WordFloatsOf {
  const std::byte* in;
  HWY_INLINE WordFloatsOf(const std::byte* bytes, size_t begin) : in(bytes + 2 * begin) {}
  HWY_INLINE hn::Vec<Floats> At(size_t i) const {
    return Format::Decode(hn::PromoteTo(Ints(), hn::LoadU(Words(), reinterpret_cast<const uint16_t*>(in) + i)));
  }
};

struct ScaledInt8 {
  const int8_t* codes;
  hn::Vec<Floats> scale;
  HWY_INLINE ScaledInt8(const std::byte* bytes, size_t begin) : scale(hn::Zero(Floats())) {
    const std::byte* block = bytes + begin / kInt8Block * Int8Bytes(kInt8Block);
    uint16_t scale_bits;
    std::memcpy(&scale_bits, block, 2);
    scale = hn::Set(Floats(), FloatFromBfloat16(scale_bits));
    codes = reinterpret_cast<const int8_t*>(block) + 2;
  }
  HWY_INLINE hn::Vec<Floats> At(size_t i) const {
    return hn::Mul(hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(SignedCodes(), codes + i))), scale);
  }
};

// Weighted sum for fp32, fp16, bf16 and int8: for each kInt8Block elements, the sums over all inputs in registers.
template <class Read>
void SumStretches(const SumInput* inputs, size_t count, bool first, size_t n, float* out) {
  const Floats d;
  constexpr size_t kLanes = 16, kVectors = kInt8Block / kLanes;
  for (size_t begin = 0; begin < n; begin += kInt8Block) {
    hn::Vec<Floats> sums[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sums[v] = first ? hn::Set(d, -0.0f) : hn::LoadU(d, out + begin + v * kLanes);
    for (size_t i = 0; i < count; ++i) {
      const Read read(inputs[i].bytes, begin);
      const auto weight = hn::Set(d, inputs[i].weight);
      for (size_t v = 0; v < kVectors; ++v) {
        sums[v] = hn::Add(sums[v], hn::Mul(weight, read.At(v * kLanes)));
      }
    }
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, out + begin + v * kLanes);
  }
}

bool SumOf(CodecKind kind, const SumInput* inputs, size_t count, size_t n, float* out) {
  for (size_t i = 0; i < count; i += kStreams) {
    const SumInput* const some = inputs + i;
    const size_t streams = std::min(kStreams, count - i);
    const bool first = i == 0, last = i + streams == count;
    switch (kind) {
      case CodecKind::kFp32: SumStretches<WholeFloats>(some, streams, first, n, out); break;
      case CodecKind::kFp16: SumStretches<WordFloatsOf<Half>>(some, streams, first, n, out); break;
      case CodecKind::kBf16: SumStretches<WordFloatsOf<Bfloat16>>(some, streams, first, n, out); break;
      case CodecKind::kInt8: SumStretches<ScaledInt8>(some, streams, first, n, out); break;
      case CodecKind::kMxfp4: SumFp4<E2m1>(some, streams, first, last, n / kFp4Block, out); break;
      case CodecKind::kE3m0: SumFp4<E3m0>(some, streams, first, last, n / kFp4Block, out); break;
      default: return false;
    }
  }
  return true;
}

#else
// With narrower vectors SumOf would gain nothing: it returns false, and the inputs are added one after the other.
bool SumOf(CodecKind /*kind*/, const SumInput* /*inputs*/, size_t /*count*/, size_t /*n*/, float* /*out*/) {
  return false;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <vector>

namespace atl {
namespace codec {

HWY_EXPORT(SumOf);

namespace {

// Computes the whole sum at once. False, without effect, unless whole blocks of one codec gain by it on this CPU.
bool SumAtOnce(std::span<const WeightedEncoding> inputs, uint64_t begin, std::span<float> out) {
  const CodecKind kind = inputs.front().codec;
  if (out.size() % kLargestBlock != 0) return false;
  std::vector<SumInput> places;
  places.reserve(inputs.size());
  for (const WeightedEncoding& input : inputs) {
    if (input.codec != kind) return false;
    places.push_back({RangeAt(kind, input.encoded, begin, out.size()), input.weight});
  }
  return HWY_DYNAMIC_DISPATCH(SumOf)(kind, places.data(), places.size(), out.size(), out.data());
}

}  // namespace
}  // namespace codec

void DecodeWeightedSum(std::span<const WeightedEncoding> inputs, uint64_t begin, std::span<float> out) {
  if (inputs.empty()) return std::fill(out.begin(), out.end(), 0.0f);
  if (out.empty() || codec::SumAtOnce(inputs, begin, out)) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const WeightedEncoding& input = inputs[i];
    (i == 0 ? DecodeScaled : DecodeScaledAccumulate)(input.codec, input.encoded, begin, input.weight, out);
  }
}

}  // namespace atl
#endif  // HWY_ONCE
