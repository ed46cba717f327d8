// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a model's block between its products, for one element, shared by kernels
// (pass_kernels.cu) and plain C++17:
//
//   SwiGLU: out = silu(g) u,  silu(g) = g s,  s = 1 / (1 + exp(-g))   (Shazeer 2020, equation 6)
//           d out / d g = u s (1 + g (1 - s)),  d out / d u = silu(g)
//   rotary embedding of halves (Su et al. 2021, section 3.4, in Hugging Face's rotate_half):
//           (x, y) -> (x c - y s, y c + x s); its gradient turns the other way
//
// Everything is fp32, and rounded once when stored as bf16. Exponentials and quotients are the
// device's, which may fuse a product with a sum and flushes values below 2^-126 to 0: device and
// host agree within some last places, not to the bit. No errors, no state; safe on every thread.
#ifndef ATOLL_WORKER_GPU_PASS_MATH_H_
#define ATOLL_WORKER_GPU_PASS_MATH_H_

#include <math.h>

#include <cstdint>

#include "worker/gpu/adamw_math.h"
#include "worker/gpu/codec_math.h"

namespace atl::pass_math {

// The storage type of values, and how many of them are 16 bytes.
struct Fp32 {
  using Word = uint32_t;
  static constexpr uint32_t kWide = 4;
  ATOLL_HOST_DEVICE static float Value(uint32_t word) { return codec_math::FloatOf(word); }
  ATOLL_HOST_DEVICE static uint32_t WordOf(float value) { return codec_math::BitsOf(value); }
};
struct Bf16 {
  using Word = uint16_t;
  static constexpr uint32_t kWide = 8;
  ATOLL_HOST_DEVICE static float Value(uint16_t word) {
    return codec_math::FloatOf(codec_math::BitsFromBfloat16(word));
  }
  ATOLL_HOST_DEVICE static uint16_t WordOf(float value) { return adamw_math::Rounded(value); }
};

// Uses the device's own units: accurate within 2 + 1.2 |x| last places for e^x, within 2 for quotients.
ATOLL_HOST_DEVICE inline float Exp(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return expf(x);
#endif
}
ATOLL_HOST_DEVICE inline float Quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

ATOLL_HOST_DEVICE inline float Sigmoid(float x) { return Quotient(1.0f, 1.0f + Exp(-x)); }
ATOLL_HOST_DEVICE inline float Gated(float gate, float up) { return gate * Sigmoid(gate) * up; }

struct GateGradients {
  float gate, up;
};
ATOLL_HOST_DEVICE inline GateGradients GateBack(float gate, float up, float gradient) {
  const float s = Sigmoid(gate);
  return {gradient * up * (s * (1.0f + gate * (1.0f - s))), gradient * (gate * s)};
}

struct Pair {
  float first, second;
};
// A negated `sine` rotates back.
ATOLL_HOST_DEVICE inline Pair Turned(Pair at, float cosine, float sine) {
  return {at.first * cosine - at.second * sine, at.second * cosine + at.first * sine};
}

}  // namespace atl::pass_math

#endif  // ATOLL_WORKER_GPU_PASS_MATH_H_
