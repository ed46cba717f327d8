// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the inner optimizer for one element, and of the norm of a gradient for one block. Shared by
// kernels (step_kernels.cu) and plain C++17, so that the host can compare it with AdamW in double precision.
//
// Source: Loshchilov and Hutter 2019, algorithm 2 with the learning rate as its multiplier. Factors that depend
// only on the step are computed once, in double (FactorsOf of worker/device/step_kernels.h). Every operation is
// IEEE binary32, rounded to nearest, built as described in codec_math.h, so that host and device agree bit for
// bit. No errors, no state; safe on every thread.
#ifndef ATOLL_WORKER_GPU_ADAMW_MATH_H_
#define ATOLL_WORKER_GPU_ADAMW_MATH_H_

#include <math.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"
#include "worker/gpu/codec_math.h"

namespace atl::adamw_math {

// A block of the norm: lane i of kSumLanes adds the squares of elements i, i + kSumLanes, ... in
// that order; then lanes are added in halves, the upper to the lower.
constexpr uint32_t kSumBlock = 4096;
constexpr uint32_t kSumLanes = 256;

struct Element {
  float parameter, gradient, first, second;
};

// The element after the update; its gradient is the scaled one.
ATOLL_HOST_DEVICE inline Element Updated(Element e, const atoll_gpu_adamw& f) {
  e.gradient = e.gradient * f.gradient_factor;
  e.first = e.first + (e.gradient - e.first) * f.first_share;
  e.second = e.second * f.second_kept + e.gradient * e.gradient * f.second_share;
  const float divisor = sqrtf(e.second) * f.second_scale + f.epsilon;
  e.parameter = e.parameter * f.kept - f.step_size * (e.first / divisor);
  return e;
}

// x as bf16: rounded to nearest, ties to even; overflow becomes infinity, as in LibTorch.
ATOLL_HOST_DEVICE inline uint16_t Rounded(float x) {
  const uint32_t bits = codec_math::BitsOf(x);
  if (codec_math::Magnitude(bits) > codec_math::kInfinity) return 0x7fc0u;
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace atl::adamw_math

#endif  // ATOLL_WORKER_GPU_ADAMW_MATH_H_
