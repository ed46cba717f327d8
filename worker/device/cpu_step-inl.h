// SPDX-License-Identifier: Apache-2.0
// The SIMD implementation, compiled once per instruction set by cpu_step.cc.
#if defined(ATOLL_WORKER_DEVICE_CPU_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_WORKER_DEVICE_CPU_STEP_INL_H_
#undef ATOLL_WORKER_DEVICE_CPU_STEP_INL_H_
#else
#define ATOLL_WORKER_DEVICE_CPU_STEP_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/vecmath/row_vectors-inl.h"
#include "hwy/highway.h"
#include "worker/device/cpu_step.h"

HWY_BEFORE_NAMESPACE();
namespace atl::cpu_step {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using rows::HWY_NAMESPACE::Floats;
using rows::HWY_NAMESPACE::ForVectors;
using rows::HWY_NAMESPACE::Vec;

// Within a block of the norm, lane i adds the squares of elements i, i + kSumLanes, ...
constexpr size_t kSumLanes = 256;

// No fused multiply-add: the bits must equal those of adamw_math.h.
template <bool kRounds>
void AdamwOf(const atoll_gpu_adamw& f, bool clear, const AdamwSpans& s) {
  const Floats d;
  const Vec gradient_factor = hn::Set(d, f.gradient_factor), kept = hn::Set(d, f.kept),
            first_share = hn::Set(d, f.first_share), second_kept = hn::Set(d, f.second_kept),
            second_share = hn::Set(d, f.second_share), step_size = hn::Set(d, f.step_size),
            second_scale = hn::Set(d, f.second_scale), epsilon = hn::Set(d, f.epsilon);
  float* const parameters = s.parameters.data();
  float* const gradients = s.gradients.data();
  float* const firsts = s.first.data();
  float* const seconds = s.second.data();
  uint16_t* const rounded = s.rounded.data();
  ForVectors(s.parameters.size(), [&](size_t i, auto part) HWY_ATTR {
    const Vec gradient = hn::Mul(part(gradients + i), gradient_factor);
    Vec first = part(firsts + i), second = part(seconds + i);
    first = hn::Add(first, hn::Mul(hn::Sub(gradient, first), first_share));
    second = hn::Add(hn::Mul(second, second_kept), hn::Mul(hn::Mul(gradient, gradient), second_share));
    const Vec divisor = hn::Add(hn::Mul(hn::Sqrt(second), second_scale), epsilon);
    const Vec parameter = hn::Sub(hn::Mul(part(parameters + i), kept), hn::Mul(step_size, hn::Div(first, divisor)));
    part(parameter, parameters + i);
    part(clear ? hn::Zero(d) : gradient, gradients + i);
    part(first, firsts + i);
    part(second, seconds + i);
    if constexpr (kRounds) part(parameter, rounded + i);
  });
}

void Adamw(const atoll_gpu_adamw& f, bool clear, const AdamwSpans& s) {
  if (s.rounded.empty()) {
    AdamwOf<false>(f, clear, s);
  } else {
    AdamwOf<true>(f, clear, s);
  }
}

// The sum of squares of one block, in the order of adamw_math.h: down the lanes, then halves, upper added to lower.
inline float SquaresOf(const float* values, size_t count) {
  HWY_ALIGN float lanes[kSumLanes] = {};
  for (size_t at = 0; at < count; at += kSumLanes) {
    ForVectors(std::min(kSumLanes, count - at), [&](size_t i, auto part) HWY_ATTR {
      const Vec x = part(values + at + i);
      part(hn::Add(part(lanes + i), hn::Mul(x, x)), lanes + i);
    });
  }
  for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
    ForVectors(
        half, [&](size_t i, auto part) HWY_ATTR { part(hn::Add(part(lanes + i), part(lanes + half + i)), lanes + i); });
  }
  return lanes[0];
}

void SumSquares(std::span<const float> values, std::span<float> sums) {
  constexpr size_t kBlock = ATOLL_GPU_SUM_BLOCK;
  for (size_t block = 0; block < sums.size(); ++block) {
    const size_t begin = block * kBlock;
    sums[block] = SquaresOf(values.data() + begin, std::min(kBlock, values.size() - begin));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::cpu_step
HWY_AFTER_NAMESPACE();

#endif  // the toggle
