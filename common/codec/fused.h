// SPDX-License-Identifier: Apache-2.0
// Decoding fused with the use of the values: where the CPU's vectors suffice, decoded values stay in registers.
// D(q)[i] is decoded element i. Results equal those of DecodeRange (common/codec/codec.h) followed by the named
// vecmath kernel, bit for bit. The same ranges as for DecodeRange are allowed. Pure functions, safe everywhere.
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

// lost[i] = h[i] - D(q)[i]; returns vecmath::BlockSquares(lost). `q` is a whole encoding of at most kCodecBlock
// elements. `lost` may be `h`; otherwise, if it is aligned to 64 bytes, wide vectors write it past the caches.
double DecodeLost(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost);

// For an encoding q of h: lost = h - D(q) and public_copy = public_copy + D(q). Returns the largest magnitudes in
// `lost` and `public_copy` afterwards; all results must be finite. `q` is a whole encoding of at most kCodecBlock
// elements.
struct Settled {
  float lost_max = 0, public_max = 0;
};
Settled DecodeSettle(CodecKind codec, Bytes q, std::span<const float> h, std::span<float> lost,
                     std::span<float> public_copy);

}  // namespace atl

#endif  // ATOLL_COMMON_CODEC_FUSED_H_
