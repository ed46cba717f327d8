// SPDX-License-Identifier: Apache-2.0
// Vectors of fp32 over memory with fp32 or bf16, for kernels of the training step (worker/model,
// worker/device): whole vectors, and the last one of a row, which is padded with zeros and uses the
// same operations. Compiled once for each instruction set by the including file.
#if defined(ATOLL_COMMON_VECMATH_ROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_VECMATH_ROW_VECTORS_INL_H_
#undef ATOLL_COMMON_VECMATH_ROW_VECTORS_INL_H_
#else
#define ATOLL_COMMON_VECMATH_ROW_VECTORS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::rows {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
constexpr size_t kMostLanes = HWY_MAX_BYTES / sizeof(float);

inline Vec Load(const float* from) { return hn::LoadU(Floats(), from); }
inline void Store(Vec v, float* to) { hn::StoreU(v, Floats(), to); }

inline Vec Load(const uint16_t* from) {
  const hn::Rebind<uint16_t, Floats> narrow;
  const hn::RebindToUnsigned<Floats> wide;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, from))));
}
// Rounds to nearest, ties to even; NaN stays NaN.
inline void Store(Vec v, uint16_t* to) {
  const hn::Rebind<uint16_t, Floats> narrow;
  const hn::RebindToUnsigned<Floats> wide;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
  const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fff))));
  const auto kept = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(v)), hn::Set(wide, 0x7fc0), nearest);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<Floats>(), kept)), narrow, to);  // all below 2^16
}

// Highway's Exp returns 0 for a NaN.
inline Vec Exp(Vec x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(Floats(), x)); }

// Memory access for the body of ForVectors: part(p) loads a vector from p, part(v, p) stores one.
// In the last vector of a row, elements beyond the row are read as zero and not written.
struct Whole {
  template <typename T>
  Vec operator()(const T* p) const {
    return Load(p);
  }
  template <typename T>
  void operator()(Vec v, T* p) const {
    Store(v, p);
  }
};
struct Partial {
  size_t left;
  template <typename T>
  Vec operator()(const T* p) const {
    std::array<T, kMostLanes> filled{};
    std::copy(p, p + left, filled.begin());
    return Load(filled.data());
  }
  template <typename T>
  void operator()(Vec v, T* p) const {
    std::array<T, kMostLanes> filled;
    Store(v, filled.data());
    std::copy(filled.begin(), filled.begin() + static_cast<ptrdiff_t>(left), p);
  }
};
template <typename Body>
HWY_INLINE void ForVectors(size_t width, const Body& body) {
  const size_t lanes = hn::Lanes(Floats()), whole = width - width % lanes;
  for (size_t i = 0; i < whole; i += lanes) body(i, Whole());
  if (whole < width) body(whole, Partial{width - whole});
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::rows
HWY_AFTER_NAMESPACE();

#endif  // the toggle
