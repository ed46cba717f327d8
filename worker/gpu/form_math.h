// SPDX-License-Identifier: Apache-2.0
// The arithmetic of forming a contribution in one pass, shared by kernels (form_kernels.cu) and plain C++17:
//
//   h = (outer - local) + residual;  q = Q(h);  lost = h - D(q);  sums of squares of h and of lost
//
// Bytes, losses and sums equal those of the host (worker/replica/fragment_replica.h) to the bit:
// elements and scales as in codec_math.h, sums in the fixed shape of common/vecmath. If an h is not
// finite, only that is reported, and the contribution is refused. Every operation is IEEE, rounded
// to nearest, built as described in codec_math.h. No errors, no state; safe on every thread.
#ifndef ATOLL_WORKER_GPU_FORM_MATH_H_
#define ATOLL_WORKER_GPU_FORM_MATH_H_

#include <cstdint>

#include "worker/gpu/codec_math.h"

namespace atl::form_math {

// A block: one codec block of common/codec, and one block of the sums. Element i is added in lane i
// % kLanes in fp64, in element order; then lanes are added in halves, the upper to the lower.
constexpr uint32_t kBlock = 4096;
constexpr uint32_t kLanes = 16;

ATOLL_HOST_DEVICE inline float Sent(float outer, float local) { return outer - local; }
ATOLL_HOST_DEVICE inline float Sent(float outer, float local, float residual) { return (outer - local) + residual; }

ATOLL_HOST_DEVICE inline float Lost(float h, uint32_t decoded) { return h - codec_math::FloatOf(decoded); }

// Merge of common/vecmath, without its exact cases for the shares 0 and 1.
ATOLL_HOST_DEVICE inline float Merged(float own, float others, float local, float outer) {
  return own * local + others * outer;
}

ATOLL_HOST_DEVICE inline double AddedSquare(double sum, float x) {
  const double wide = static_cast<double>(x);
  return sum + wide * wide;
}

// The encoding of a group of elements: kScaleBytes of their common scale, then kCodeBits per
// element, from low to high. The last byte of an odd number of half bytes is padded with zeros at
// the top. Plain formats have no scale, so that the size of their groups is arbitrary.
struct Fp32 {
  static constexpr uint32_t kGroup = 128, kScaleBytes = 0, kCodeBits = 32;
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t) { return 0; }
  ATOLL_HOST_DEVICE static uint32_t Code(uint32_t bits, uint32_t) { return bits; }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code, uint32_t) { return code; }
};
struct Fp16 {
  static constexpr uint32_t kGroup = 128, kScaleBytes = 0, kCodeBits = 16;
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t) { return 0; }
  ATOLL_HOST_DEVICE static uint32_t Code(uint32_t bits, uint32_t) { return codec_math::HalfFromBits(bits); }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code, uint32_t) { return codec_math::BitsFromHalf(code); }
};
struct Bf16 {
  static constexpr uint32_t kGroup = 128, kScaleBytes = 0, kCodeBits = 16;
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t) { return 0; }
  ATOLL_HOST_DEVICE static uint32_t Code(uint32_t bits, uint32_t) { return codec_math::Bfloat16FromBits(bits); }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code, uint32_t) { return codec_math::BitsFromBfloat16(code); }
};
struct Int8 {
  static constexpr uint32_t kGroup = codec_math::kInt8Block, kScaleBytes = 2, kCodeBits = 8;
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t largest) { return codec_math::Int8Scale(largest); }
  ATOLL_HOST_DEVICE static uint32_t Code(uint32_t bits, uint32_t scale) { return codec_math::Int8Code(bits, scale); }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code, uint32_t scale) { return codec_math::Int8Value(code, scale); }
};
template <typename Format>
struct Fp4 {
  static constexpr uint32_t kGroup = codec_math::kFp4Block, kScaleBytes = 1, kCodeBits = 4;
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t largest) { return codec_math::Fp4Scale<Format>(largest); }
  ATOLL_HOST_DEVICE static uint32_t Code(uint32_t bits, uint32_t scale) {
    return codec_math::Fp4Code<Format>(bits, scale);
  }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code, uint32_t scale) {
    return codec_math::Fp4Value<Format>(code, scale);
  }
};

// Bytes of a whole group; those of a block are a multiple of 4.
template <typename Codec>
constexpr uint32_t kGroupBytes = Codec::kScaleBytes + Codec::kGroup* Codec::kCodeBits / 8;
template <typename Codec>
constexpr uint32_t kBlockBytes = kBlock / Codec::kGroup* kGroupBytes<Codec>;

}  // namespace atl::form_math

#endif  // ATOLL_WORKER_GPU_FORM_MATH_H_
