// SPDX-License-Identifier: Apache-2.0
// SIMD forms, compiled once for each instruction set by vecmath.cc. Multiplication and addition are
// separate Highway operations and the build forbids contraction, so that every target rounds like
// scalar.cc. For tails the elementwise kernels call scalar.cc.
#if defined(ATOLL_COMMON_VECMATH_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_VECMATH_KERNELS_INL_H_
#undef ATOLL_COMMON_VECMATH_KERNELS_INL_H_
#else
#define ATOLL_COMMON_VECMATH_KERNELS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "common/vecmath/square_sum-inl.h"
#include "common/vecmath/vecmath.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::vecmath {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

// Number of elements in whole vectors.
inline size_t Whole(size_t n) { return n - n % hn::Lanes(Floats()); }

void Copy(std::span<const float> from, std::span<float> to) {
  if (from.size() < kFarCopy) return scalar::Copy(from, to);
  const Floats d;
  const size_t vector = hn::Lanes(d) * sizeof(float);
  const size_t before = (vector - reinterpret_cast<uintptr_t>(to.data()) % vector) % vector / sizeof(float);
  const size_t end = before + Whole(to.size() - before);
  scalar::Copy(from.first(before), to.first(before));
  for (size_t i = before; i < end; i += hn::Lanes(d)) hn::Stream(hn::LoadU(d, from.data() + i), d, to.data() + i);
  hwy::FlushStream();
  scalar::Copy(from.subspan(end), to.subspan(end));
}

void Scale(float weight, std::span<const float> x, std::span<float> out) {
  const Floats d;
  const auto w = hn::Set(d, weight);
  const size_t whole = Whole(x.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d))
    hn::StoreU(hn::Mul(w, hn::LoadU(d, x.data() + i)), d, out.data() + i);
  scalar::Scale(weight, x.subspan(whole), out.subspan(whole));
}

void ScaledAccumulate(float weight, std::span<const float> x, std::span<float> acc) {
  const Floats d;
  const auto w = hn::Set(d, weight);
  const size_t whole = Whole(x.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, acc.data() + i), hn::Mul(w, hn::LoadU(d, x.data() + i))), d, acc.data() + i);
  }
  scalar::ScaledAccumulate(weight, x.subspan(whole), acc.subspan(whole));
}

void Add(std::span<const float> x, std::span<float> target) {
  const Floats d;
  const size_t whole = Whole(x.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, target.data() + i), hn::LoadU(d, x.data() + i)), d, target.data() + i);
  }
  scalar::Add(x.subspan(whole), target.subspan(whole));
}

void Subtract(std::span<const float> a, std::span<const float> b, std::span<float> out) {
  const Floats d;
  const size_t whole = Whole(a.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    hn::StoreU(hn::Sub(hn::LoadU(d, a.data() + i), hn::LoadU(d, b.data() + i)), d, out.data() + i);
  }
  scalar::Subtract(a.subspan(whole), b.subspan(whole), out.subspan(whole));
}

void Merge(double mix, std::span<const float> outer, std::span<float> local) {
  if (mix == 1) return;
  if (mix == 0) return Copy(outer, local);
  const Floats d;
  const auto own = hn::Set(d, static_cast<float>(mix));
  const auto others = hn::Set(d, static_cast<float>(1 - mix));
  const size_t whole = Whole(local.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    const auto kept = hn::Mul(own, hn::LoadU(d, local.data() + i));
    hn::StoreU(hn::Add(kept, hn::Mul(others, hn::LoadU(d, outer.data() + i))), d, local.data() + i);
  }
  scalar::Merge(mix, outer.subspan(whole), local.subspan(whole));
}

void Order(std::span<float> a, std::span<float> b) {
  const Floats d;
  const size_t whole = Whole(a.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, &a[i]), y = hn::LoadU(d, &b[i]);
    const auto changed = hn::Lt(y, x);
    hn::StoreU(hn::IfThenElse(changed, y, x), d, &a[i]);
    hn::StoreU(hn::IfThenElse(changed, x, y), d, &b[i]);
  }
  scalar::Order(a.subspan(whole), b.subspan(whole));
}

void OuterDirection(const OuterCoefficients& c, std::span<float> momentum, std::span<float> g_to_u) {
  if (c.kind == OuterKind::kSgd) return Scale(-c.learning_rate, g_to_u, g_to_u);
  const Floats d;
  const auto step = hn::Set(d, -c.learning_rate);
  const auto mu = hn::Set(d, c.momentum);
  const size_t whole = Whole(g_to_u.size());
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    const auto g = hn::LoadU(d, g_to_u.data() + i);
    const auto buffer = hn::Add(hn::Mul(mu, hn::LoadU(d, momentum.data() + i)), g);
    hn::StoreU(buffer, d, momentum.data() + i);
    const auto direction = c.kind == OuterKind::kNesterov ? hn::Add(g, hn::Mul(mu, buffer)) : buffer;
    hn::StoreU(hn::Mul(step, direction), d, g_to_u.data() + i);
  }
  scalar::OuterDirection(c, momentum.subspan(whole), g_to_u.subspan(whole));
}

// Sums the products a[i] * b[i] into 16 lanes for any vector width: 16 / width accumulators.
inline void ProductLanes(const float* a, const float* b, size_t n, std::array<double, kLanes>& lanes) {
  const hn::CappedTag<double, kLanes / 2> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t width = hn::Lanes(d);
  for (size_t lane = 0; lane < kLanes; lane += 2 * width) {  // two accumulators per pass hide the latency of additions
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    for (size_t i = lane; i + kLanes - lane <= n; i += kLanes) {
      const size_t j = i + width;
      const auto a0 = hn::PromoteTo(d, hn::LoadU(df, a + i)), b0 = hn::PromoteTo(d, hn::LoadU(df, b + i));
      const auto a1 = hn::PromoteTo(d, hn::LoadU(df, a + j)), b1 = hn::PromoteTo(d, hn::LoadU(df, b + j));
      sum0 = hn::Add(sum0, hn::Mul(a0, b0));
      sum1 = hn::Add(sum1, hn::Mul(a1, b1));
    }
    hn::StoreU(sum0, d, &lanes[lane]);
    hn::StoreU(sum1, d, &lanes[lane + width]);
  }
  for (size_t i = n - n % kLanes; i < n; ++i)
    lanes[i % kLanes] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
}

// ProductLanes of a vector with itself; converts each element only once.
inline void SquareLanes(const float* a, size_t n, std::array<double, kLanes>& lanes) {
  const hn::CappedTag<double, kLanes / 2> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t width = hn::Lanes(d);
  for (size_t lane = 0; lane < kLanes; lane += 2 * width) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    for (size_t i = lane; i + kLanes - lane <= n; i += kLanes) {
      const auto a0 = hn::PromoteTo(d, hn::LoadU(df, a + i));
      const auto a1 = hn::PromoteTo(d, hn::LoadU(df, a + i + width));
      sum0 = hn::Add(sum0, hn::Mul(a0, a0));
      sum1 = hn::Add(sum1, hn::Mul(a1, a1));
    }
    hn::StoreU(sum0, d, &lanes[lane]);
    hn::StoreU(sum1, d, &lanes[lane + width]);
  }
  for (size_t i = n - n % kLanes; i < n; ++i)
    lanes[i % kLanes] += static_cast<double>(a[i]) * static_cast<double>(a[i]);
}

uint32_t LargestMagnitudeBits(std::span<const float> x) {
  const Floats d;
  const hn::Rebind<uint32_t, Floats> du;
  const size_t whole = Whole(x.size());
  const auto mask = hn::Set(du, 0x7fffffffu);
  auto largest = hn::Zero(du);
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::And(hn::BitCast(du, hn::LoadU(d, x.data() + i)), mask));
  }
  uint32_t result = hn::GetLane(hn::MaxOfLanes(du, largest));
  for (size_t i = whole; i < x.size(); ++i) result = std::max(result, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return result;
}

BlockStats BlockStatistics(std::span<const float> x) {
  const uint32_t largest = LargestMagnitudeBits(x);
  if (largest >= 0x7f800000u) return {.sum_squares = 0, .max_abs = 0, .finite = false};
  std::array<double, kLanes> lanes;
  SquareLanes(x.data(), x.size(), lanes);
  return {.sum_squares = TreeSum(lanes), .max_abs = std::bit_cast<float>(largest), .finite = true};
}

double BlockSquares(std::span<const float> x) {
  std::array<double, kLanes> lanes;
  SquareLanes(x.data(), x.size(), lanes);
  return TreeSum(lanes);
}

double BlockDot(std::span<const float> a, std::span<const float> b) {
  std::array<double, kLanes> lanes;
  ProductLanes(a.data(), b.data(), a.size(), lanes);
  return TreeSum(lanes);
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace atl::vecmath
HWY_AFTER_NAMESPACE();

#endif
