// SPDX-License-Identifier: Apache-2.0
// Decoding fused with the use of the values, so that decoded values are never stored in memory.
// Results equal those of DecodeRange (common/codec/codec.h) followed by the named vecmath kernel,
// bit for bit; ranges as in DecodeRange. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_CODEC_FUSED_H_
#define ATOLL_COMMON_CODEC_FUSED_H_

#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"

namespace atl {

// vecmath::Scale: out[i] = weight * D(q)[i]
void DecodeScaled(CodecKind codec, Bytes encoded, uint64_t begin, float weight, std::span<float> out);
// vecmath::ScaledAccumulate: acc[i] = acc[i] + weight * D(q)[i]
void DecodeScaledAccumulate(CodecKind codec, Bytes encoded, uint64_t begin, float weight, std::span<float> acc);
// A term of a weighted sum.
struct WeightedEncoding {
  CodecKind codec = CodecKind::kFp32;
  Bytes encoded{};
  float weight = 0;
};
// DecodeScaled of the first input, then DecodeScaledAccumulate of each further one; zeros without
// inputs.
void DecodeWeightedSum(std::span<const WeightedEncoding> inputs, uint64_t begin, std::span<float> out);
// vecmath::BlockStatistics of elements [begin, begin + elements), at most kCodecBlock.
vecmath::BlockStats DecodedStatistics(CodecKind codec, Bytes encoded, uint64_t begin, size_t elements);

// lost[i] = h[i] - D(q)[i]; returns vecmath::BlockSquares(lost). `q` as below. `lost` may be `h`;
// otherwise, if it is aligned to 64 bytes, it is written past the caches.
double DecodeLost(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost);

// For an encoding q of h: lost = h - D(q) and public_copy = public_copy + D(q). Returns the largest
// magnitudes afterwards, which must be finite. `q` is a whole encoding of at most kCodecBlock
// elements.
struct Settled {
  float lost_max = 0, public_max = 0;
};
Settled DecodeSettle(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost,
                     std::span<float> public_copy);

}  // namespace atl

#endif  // ATOLL_COMMON_CODEC_FUSED_H_
