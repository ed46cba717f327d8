// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the loss at the head of a model, for one score and for sums of them, shared by
// kernels (pass_kernels.cu) and plain C++17. For a row of scores x and its target t:
//
//   l = logsumexp(x);  loss = l - x[t];  d(loss + z l^2) / d(x[i]) = p[i] (1 + 2 z l) - [i = t],  p[i] = exp(x[i] - l)
//
// Everything is fp32. A row is summed in parts, each relative to the largest score seen so far, so
// that no exponential overflows; parts are joined in an order that depends only on the row's size.
// NaN or +infinity among the scores makes l NaN, and with it loss and gradients; -infinity has the
// probability 0. No errors, no state; safe on every thread.
#ifndef ATOLL_WORKER_GPU_SCORE_MATH_H_
#define ATOLL_WORKER_GPU_SCORE_MATH_H_

#include <math.h>

#include <cstdint>

#include "worker/gpu/codec_math.h"
#include "worker/gpu/pass_math.h"

namespace atl::score_math {

// For some scores: the largest, at least the lowest finite number, and the sum of exp(x - largest).
struct Part {
  float largest, sum;
};
ATOLL_HOST_DEVICE inline Part Nothing() { return {codec_math::FloatOf(0xff7fffffu), 0.0f}; }

// Converts a sum relative to `from` into one relative to `to`, which is not smaller. A sum of no
// scores stays 0.
ATOLL_HOST_DEVICE inline float Beside(float sum, float from, float to) {
  return from == to || sum == 0.0f ? sum : sum * pass_math::Exp(from - to);
}

ATOLL_HOST_DEVICE inline Part Joined(Part a, Part b) {
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, Beside(a.sum, a.largest, largest) + Beside(b.sum, b.largest, largest)};
}

// Adds `count` more scores, which are summed before they join the part.
ATOLL_HOST_DEVICE inline Part With(Part part, const float* scores, uint32_t count) {
  float largest = part.largest;
  for (uint32_t i = 0; i < count; ++i) largest = fmaxf(largest, scores[i]);
  float sum = Beside(part.sum, part.largest, largest);
  for (uint32_t i = 0; i < count; ++i) sum = sum + pass_math::Exp(scores[i] - largest);
  return {largest, sum};
}

ATOLL_HOST_DEVICE inline float LogSum(Part part) { return part.largest + logf(part.sum); }

// The factor of a row's probabilities.
ATOLL_HOST_DEVICE inline float FactorOf(float log_sum, float scale, float z_loss) {
  return z_loss == 0.0f ? scale : scale * (1.0f + 2.0f * z_loss * log_sum);
}
ATOLL_HOST_DEVICE inline float Gradient(float score, float log_sum, float factor, float of_target) {
  return pass_math::Exp(score - log_sum) * factor - of_target;
}

}  // namespace atl::score_math

#endif  // ATOLL_WORKER_GPU_SCORE_MATH_H_
