// SPDX-License-Identifier: Apache-2.0
// The order of every sum over a block (vecmath.h): element i in lane i % 16 in fp64, lanes added as
// a tree. Compiled once for each instruction set by the including file.
#if defined(ATOLL_COMMON_VECMATH_SQUARE_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_VECMATH_SQUARE_SUM_INL_H_
#undef ATOLL_COMMON_VECMATH_SQUARE_SUM_INL_H_
#else
#define ATOLL_COMMON_VECMATH_SQUARE_SUM_INL_H_
#endif

#include <array>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::vecmath {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = 16;

inline double TreeSum(std::array<double, kLanes>& lanes) {
  for (size_t half = kLanes / 2; half >= 1; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

#if HWY_TARGET <= HWY_AVX3
// Sums the squares of whole vectors of 16 floats: element i of each vector in lane i, like SquareLanes.
struct SquareSum {
  using Wide = hn::CappedTag<double, kLanes / 2>;
  hn::Vec<Wide> low, high;
  HWY_INLINE SquareSum() : low(hn::Zero(Wide())), high(hn::Zero(Wide())) {}
  template <class V>
  HWY_INLINE void Add(V x) {
    const hn::Half<hn::CappedTag<float, kLanes>> half;
    const auto a = hn::PromoteTo(Wide(), hn::LowerHalf(half, x));
    const auto b = hn::PromoteTo(Wide(), hn::UpperHalf(half, x));
    low = hn::Add(low, hn::Mul(a, a));
    high = hn::Add(high, hn::Mul(b, b));
  }
  double Total() const {
    std::array<double, kLanes> lanes;
    hn::StoreU(low, Wide(), lanes.data());
    hn::StoreU(high, Wide(), lanes.data() + kLanes / 2);
    return TreeSum(lanes);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace atl::vecmath
HWY_AFTER_NAMESPACE();

#endif
