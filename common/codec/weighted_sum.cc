// Sums of many encodings at once.
#include "common/codec/families.h"
#include "common/codec/fused.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/weighted_sum.cc"
// The kernels must come after it.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "hwy/cache_control.h"
#include "common/codec/block_kernels-inl.h"
// clang-format on

#ifndef ATOLL_COMMON_CODEC_WEIGHTED_SUM_ONCE_
#define ATOLL_COMMON_CODEC_WEIGHTED_SUM_ONCE_
namespace atl::codec {
// One input: where its blocks begin.
struct Fp4Input {
  const std::byte* blocks = nullptr;
  float weight = 0;
};
}  // namespace atl::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
// The weighted sum of formats of four bits, block after block with the sums in registers: of the even elements and of
// the odd ones, as the codes lie. The products with a weight are looked up, since there are sixteen of them a block.
// What is in `out` is the beginning of the sum, unless the first input is.
template <class Format>
void SumFp4(const Fp4Input* inputs, size_t count, bool first, size_t blocks, float* out) {
  const Floats df;
  const Ints d;
  const auto table = hn::LoadU(df, Format::Table());
  const auto nibble = hn::Set(d, 0x0f);
  for (size_t b = 0; b < blocks; ++b) {
    auto even = hn::Zero(df), odd = hn::Zero(df);
    if (!first) hn::LoadInterleaved2(df, out + b * kFp4Block, even, odd);
    for (size_t i = 0; i < count; ++i) {
      const std::byte* in = inputs[i].blocks + b * Fp4Bytes(kFp4Block);
      hwy::Prefetch(in + Fp4Bytes(kFp4Block) * (kCodecBlock / kFp4Block));
      const auto scale = hn::Set(df, E8m0Scale(static_cast<uint8_t>(in[0])));
      const auto products = hn::Mul(hn::Mul(table, scale), hn::Set(df, inputs[i].weight));
      const auto pairs = hn::PromoteTo(d, hn::LoadU(SmallCodes(), reinterpret_cast<const uint8_t*>(in) + 1));
      const auto low = hn::TableLookupLanes(products, hn::IndicesFromVec(df, hn::And(pairs, nibble)));
      const auto high = hn::TableLookupLanes(products, hn::IndicesFromVec(df, hn::ShiftRight<4>(pairs)));
      even = first && i == 0 ? low : hn::Add(even, low);
      odd = first && i == 0 ? high : hn::Add(odd, high);
    }
    hn::StoreInterleaved2(even, odd, df, out + b * kFp4Block);
  }
}

bool Fp4Sum(CodecKind kind, const Fp4Input* inputs, size_t count, size_t blocks, float* out) {
  constexpr size_t kStreams = 8;  // equal sizes put the same place of many inputs into the same few lines of a cache
  const auto sum = kind == CodecKind::kMxfp4 ? SumFp4<E2m1> : SumFp4<E3m0>;
  for (size_t i = 0; i < count; i += kStreams) sum(inputs + i, std::min(kStreams, count - i), i == 0, blocks, out);
  return true;
}

#else
// Narrower vectors gain nothing.
bool Fp4Sum(CodecKind /*kind*/, const Fp4Input* /*inputs*/, size_t /*count*/, size_t /*blocks*/, float* /*out*/) {
  return false;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

namespace atl {
namespace codec {

HWY_EXPORT(Fp4Sum);

namespace {

// False where not all are of one format of four bits in whole blocks, or this CPU gains nothing by it.
bool SumAtOnce(std::span<const WeightedEncoding> inputs, uint64_t begin, std::span<float> out) {
  const CodecKind kind = inputs.front().codec;
  if ((kind != CodecKind::kMxfp4 && kind != CodecKind::kE3m0) || out.size() % kFp4Block != 0) return false;
  std::vector<Fp4Input> blocks;
  blocks.reserve(inputs.size());
  for (const WeightedEncoding& input : inputs) {
    if (input.codec != kind) return false;
    blocks.push_back({RangeAt(kind, input.encoded, begin, out.size()), input.weight});
  }
  return HWY_DYNAMIC_DISPATCH(Fp4Sum)(kind, blocks.data(), blocks.size(), out.size() / kFp4Block, out.data());
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
