// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the codecs for one element, and for the scale of one block. Shared by kernels
// (codec_kernels.cu) and plain C++17, so that the host can compare it with the reference
// (common/codec) bit for bit. Layouts and rules: docs/formats/codecs.md.
//
// fp32 values are passed as bits, so that no move changes a NaN. Every operation is IEEE binary32,
// rounded to nearest: built without fused multiply-add, flush to zero and approximate division
// (nvcc -fmad=false -ftz=false -prec-div=true; g++ -ffp-contract=off). A product that is NaN has
// the bits of x86-64, where the reference runs. No errors, no state; safe on every thread.
#ifndef ATOLL_WORKER_GPU_CODEC_MATH_H_
#define ATOLL_WORKER_GPU_CODEC_MATH_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define ATOLL_HOST_DEVICE __host__ __device__
#else
#define ATOLL_HOST_DEVICE
#endif

namespace atl::codec_math {

constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kQuietNan = 0x7fc00000u;
constexpr uint32_t kInvalidProduct = 0xffc00000u;  // 0 times infinity on x86-64

// Elements and bytes of a whole block: scale, then codes.
constexpr uint32_t kInt8Block = 128, kInt8Bytes = 130;
constexpr uint32_t kFp4Block = 32, kFp4Bytes = 17;

constexpr uint32_t kNanScale16 = 0x7fc0u;  // bf16
constexpr uint32_t kNanScale8 = 0xffu;     // E8M0

ATOLL_HOST_DEVICE inline uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

ATOLL_HOST_DEVICE inline float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Magnitudes are ordered like their bits, and every NaN is above infinity: a block is finite if its
// largest magnitude is.
ATOLL_HOST_DEVICE inline uint32_t Magnitude(uint32_t bits) { return bits & kMagnitude; }
ATOLL_HOST_DEVICE inline bool IsFinite(uint32_t magnitude) { return magnitude < kInfinity; }

// fp16 -----------------------------------------------------------------------------------------------------------

ATOLL_HOST_DEVICE inline uint32_t HalfFromBits(uint32_t bits) {
  const uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t mag = Magnitude(bits);
  if (mag > kInfinity) return sign | 0x7e00u;
  if (mag == kInfinity) return sign | 0x7c00u;
  if (mag >= 0x477ff000u) return sign | 0x7bffu;  // 65520: would round to infinity
  if (mag < 0x38800000u) {
    // Below 2^-14. The last bit of 0.5 is 2^-24, fp16's subnormal unit, so the addition rounds correctly.
    return sign | (BitsOf(FloatOf(mag) + 0.5f) - 0x3f000000u);
  }
  mag += 0xfffu + (mag >> 13 & 1u);  // half a unit, less one if the remaining part is even
  return sign | (mag - 0x38000000u) >> 13;
}

ATOLL_HOST_DEVICE inline uint32_t BitsFromHalf(uint32_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t mag = (half & 0x7fffu) << 13;
  if ((half & 0x7c00u) == 0x7c00u) return sign | mag | kInfinity;
  return sign | BitsOf(FloatOf(mag) * FloatOf(0x77800000u));  // by 2^112, exact: changes the exponent's bias
}

// bf16 -----------------------------------------------------------------------------------------------------------

ATOLL_HOST_DEVICE inline uint32_t Bfloat16FromBits(uint32_t bits) {
  const uint32_t mag = Magnitude(bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  if (mag > kInfinity) return sign | 0x7fc0u;
  if (mag == kInfinity) return sign | 0x7f80u;
  const uint32_t rounded = (mag + 0x7fffu + (mag >> 16 & 1u)) >> 16;
  return sign | (rounded >= 0x7f80u ? 0x7f7fu : rounded);
}

ATOLL_HOST_DEVICE inline uint32_t BitsFromBfloat16(uint32_t value) { return value << 16; }

// Both block formats ---------------------------------------------------------------------------------------------

// The value of a code times its scale. A GPU's own NaN would be 0x7fffffff, so NaN is made explicitly.
ATOLL_HOST_DEVICE inline uint32_t Product(float code, uint32_t scale) {
  if (Magnitude(scale) > kInfinity) return scale | 0x00400000u;  // the scale, quiet
  if (Magnitude(scale) == kInfinity && code == 0.0f) return kInvalidProduct;
  return BitsOf(code * FloatOf(scale));
}

// int8 -----------------------------------------------------------------------------------------------------------

// The bf16 scale of a block from its largest magnitude.
ATOLL_HOST_DEVICE inline uint32_t Int8Scale(uint32_t largest) {
  if (!IsFinite(largest)) return kNanScale16;
  const uint32_t scale = Bfloat16FromBits(BitsOf(FloatOf(largest) / 127.0f));
  const bool finite = IsFinite(Magnitude(BitsOf(FloatOf(BitsFromBfloat16(scale)) * 127.0f)));
  return finite ? scale : scale - 1;
}

// The code, as a byte in two's complement; `bits` is finite unless the scale is NaN.
ATOLL_HOST_DEVICE inline uint32_t Int8Code(uint32_t bits, uint32_t scale) {
  if (scale == kNanScale16 || scale == 0) return 0;
  const float quotient = FloatOf(bits) / FloatOf(BitsFromBfloat16(scale));
  const float bounded = quotient < -127.0f ? -127.0f : 127.0f < quotient ? 127.0f : quotient;
  const float rounded = (bounded + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: its last bit is 1
  return static_cast<uint32_t>(static_cast<int32_t>(rounded)) & 0xffu;
}

ATOLL_HOST_DEVICE inline uint32_t Int8Value(uint32_t code, uint32_t scale) {
  const int32_t number = static_cast<int32_t>(code ^ 0x80u) - 128;  // sign-extends the byte
  return Product(static_cast<float>(number), BitsFromBfloat16(scale));
}

// Formats of four bits -------------------------------------------------------------------------------------------

// 2^(byte - 127), NaN for 255.
ATOLL_HOST_DEVICE inline uint32_t BitsFromE8m0(uint32_t byte) {
  if (byte == kNanScale8) return kQuietNan;
  return byte == 0 ? 0x00400000u : byte << 23;
}

// `biased`, 0 to 254, plus one if the largest magnitude exceeds `bound` scales; never above `most`.
ATOLL_HOST_DEVICE inline uint32_t RaisedScale(uint32_t largest, uint32_t biased, float bound, uint32_t most) {
  return biased < most && FloatOf(largest) * FloatOf(BitsFromE8m0(254u - biased)) > bound ? biased + 1 : biased;
}

// mxfp4: values 0, 0.5, 1, 1.5, 2, 3, 4, 6.
struct Mxfp4 {
  // The scale byte of a block from its largest magnitude, which is finite.
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t largest) {
    const uint32_t exponent = largest >> 23;
    const uint32_t biased = exponent < 2u ? 0u : exponent - 2u;  // at most 252
    return RaisedScale(largest, biased, 7.0f, 252u);
  }
  // The nearest value; ties to the even code; above 6 becomes 6.
  ATOLL_HOST_DEVICE static uint32_t Nearest(float a) {
    return static_cast<uint32_t>((a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) +
                                 (a > 5.0f));
  }
  // The bits of the value of a three-bit code.
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code) {
    if (code < 2u) return code == 0u ? 0u : 0x3f000000u;
    return ((code >> 1) + 126u) << 23 | (code & 1u) << 22;
  }
};

// e3m0: values 0 and 2^(code - 7).
struct E3m0 {
  ATOLL_HOST_DEVICE static uint32_t Scale(uint32_t largest) { return RaisedScale(largest, largest >> 23, 1.5f, 254u); }
  // The nearest value; ties to the even code; above 1 becomes 1.
  ATOLL_HOST_DEVICE static uint32_t Nearest(float a) {
    return static_cast<uint32_t>((a > 0.0078125f) + (a >= 0.0234375f) + (a > 0.046875f) + (a >= 0.09375f) +
                                 (a > 0.1875f) + (a >= 0.375f) + (a > 0.75f));
  }
  ATOLL_HOST_DEVICE static uint32_t Value(uint32_t code) { return code == 0u ? 0u : (code + 120u) << 23; }
};

// The scale byte of a block from its largest magnitude.
template <typename Format>
ATOLL_HOST_DEVICE inline uint32_t Fp4Scale(uint32_t largest) {
  return IsFinite(largest) ? Format::Scale(largest) : kNanScale8;
}

// The four-bit code of an element; 0 under a NaN scale.
template <typename Format>
ATOLL_HOST_DEVICE inline uint32_t Fp4Code(uint32_t bits, uint32_t scale) {
  if (scale == kNanScale8) return 0;
  const float inverse = FloatOf(BitsFromE8m0(254u - scale));
  return bits >> 31 << 3 | Format::Nearest(FloatOf(Magnitude(bits)) * inverse);
}

template <typename Format>
ATOLL_HOST_DEVICE inline uint32_t Fp4Value(uint32_t code, uint32_t scale) {
  const uint32_t sign = (code & 8u) << 28;
  return Product(FloatOf(sign | Format::Value(code & 7u)), BitsFromE8m0(scale));
}

}  // namespace atl::codec_math

#endif  // ATOLL_WORKER_GPU_CODEC_MATH_H_
