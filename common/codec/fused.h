// SPDX-License-Identifier: Apache-2.0
// Decoding that goes straight into what is done with the values, so that they never lie in memory. The results are to
// the bit those of DecodeRange (common/codec/codec.h) followed by the kernel of vecmath that is named here; ranges are
// as in DecodeRange. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_CODEC_FUSED_H_
#define ATOLL_COMMON_CODEC_FUSED_H_

#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"

namespace atl {

// vecmath::Scale: out[i] = weight * D(q)[i]
void DecodeScaled(CodecKind codec, Bytes encoded, uint64_t begin, float weight, std::span<float> out);
// vecmath::ScaledAccumulate: acc[i] = acc[i] + weight * D(q)[i]
void DecodeScaledAccumulate(CodecKind codec, Bytes encoded, uint64_t begin, float weight, std::span<float> acc);
// What a weighted sum is made of.
struct WeightedEncoding {
  CodecKind codec = CodecKind::kFp32;
  Bytes encoded{};
  float weight = 0;
};
// DecodeScaled of the first input, then DecodeScaledAccumulate of each further one; zeros without any.
void DecodeWeightedSum(std::span<const WeightedEncoding> inputs, uint64_t begin, std::span<float> out);
// vecmath::BlockStatistics of elements [begin, begin + elements), at most kCodecBlock.
vecmath::BlockStats DecodedStatistics(CodecKind codec, Bytes encoded, uint64_t begin, size_t elements);

// lost[i] = h[i] - D(q)[i], and vecmath::BlockSquares(lost). `q` as below; `lost` may be h, and goes past the caches
// where it lies at a multiple of 64 bytes elsewhere.
double DecodeLost(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost);

// Of what a codec made of h: lost = h - D(q), and public_copy = public_copy + D(q). The largest magnitudes afterwards,
// which must be finite. `q` is a whole encoding of at most kCodecBlock elements.
struct Settled {
  float lost_max = 0, public_max = 0;
};
Settled DecodeSettle(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost,
                     std::span<float> public_copy);

}  // namespace atl

#endif  // ATOLL_COMMON_CODEC_FUSED_H_
