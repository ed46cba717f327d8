// SPDX-License-Identifier: Apache-2.0
// The reference: one rounding per operation, in the order documented in vecmath.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/vecmath/vecmath.h"

namespace atl::vecmath::scalar {
namespace {

constexpr size_t kLanes = 16;

double TreeSum(std::array<double, kLanes>& lanes) {
  for (size_t half = kLanes / 2; half >= 1; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace

void Copy(std::span<const float> from, std::span<float> to) { std::copy(from.begin(), from.end(), to.begin()); }

void Scale(float weight, std::span<const float> x, std::span<float> out) {
  for (size_t i = 0; i < x.size(); ++i) out[i] = weight * x[i];
}

void ScaledAccumulate(float weight, std::span<const float> x, std::span<float> acc) {
  for (size_t i = 0; i < x.size(); ++i) acc[i] = acc[i] + weight * x[i];
}

void Add(std::span<const float> x, std::span<float> target) {
  for (size_t i = 0; i < x.size(); ++i) target[i] = target[i] + x[i];
}

void Subtract(std::span<const float> a, std::span<const float> b, std::span<float> out) {
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
}

void Merge(double mix, std::span<const float> outer, std::span<float> local) {
  if (mix == 1) return;
  if (mix == 0) return Copy(outer, local);
  const float own = static_cast<float>(mix);
  const float others = static_cast<float>(1 - mix);
  for (size_t i = 0; i < local.size(); ++i) local[i] = own * local[i] + others * outer[i];
}

void Order(std::span<float> a, std::span<float> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (b[i] < a[i]) std::swap(a[i], b[i]);
  }
}

void OuterDirection(const OuterCoefficients& c, std::span<float> momentum, std::span<float> g_to_u) {
  const float step = -c.learning_rate;
  if (c.kind == OuterKind::kSgd) {
    for (float& g : g_to_u) g = step * g;
    return;
  }
  for (size_t i = 0; i < g_to_u.size(); ++i) {
    const float g = g_to_u[i];
    const float buffer = c.momentum * momentum[i] + g;
    momentum[i] = buffer;
    g_to_u[i] = step * (c.kind == OuterKind::kNesterov ? g + c.momentum * buffer : buffer);
  }
}

OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h) {
  OuterSums sums;
  sums.merged_squares = BlockDot(g_to_h, g_to_h);
  scalar::OuterDirection(c, momentum, g_to_h);
  sums.step_squares = BlockDot(g_to_h, g_to_h);
  for (const float x : momentum) sums.momentum_max = std::max(sums.momentum_max, std::fabs(x));
  if (!residual.empty()) Add(residual, g_to_h);
  return sums;
}

BlockStats BlockStatistics(std::span<const float> x) {
  ATOLL_CHECK(x.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  std::array<double, kLanes> lanes{};
  uint32_t largest = 0;  // magnitudes are ordered like their bits; infinity and NaN are above all finite ones
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x[i]);
    lanes[i % kLanes] += value * value;
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  if (largest >= 0x7f800000u) return {.sum_squares = 0, .max_abs = 0, .finite = false};
  return {.sum_squares = TreeSum(lanes), .max_abs = std::bit_cast<float>(largest), .finite = true};
}

double BlockDot(std::span<const float> a, std::span<const float> b) {
  ATOLL_CHECK(a.size() <= kSumBlock && a.size() == b.size(), "blocks of a sum differ in length or are too long");
  std::array<double, kLanes> lanes{};
  for (size_t i = 0; i < a.size(); ++i) lanes[i % kLanes] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return TreeSum(lanes);
}

BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h) {
  Subtract(outer, local, h);
  if (!residual.empty()) Add(residual, h);
  return BlockStatistics(h);
}

}  // namespace atl::vecmath::scalar
