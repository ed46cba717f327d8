// SPDX-License-Identifier: Apache-2.0
// Products of small fp32 matrices, in tiles with sums in registers, for attention-inl.h. Matrices
// are row-major, with widths padded with zeros to whole panels.
#if defined(ATOLL_WORKER_MODEL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_WORKER_MODEL_TILES_INL_H_
#undef ATOLL_WORKER_MODEL_TILES_INL_H_
#else
#define ATOLL_WORKER_MODEL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "common/vecmath/row_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::attention {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using rows::HWY_NAMESPACE::Floats;
using rows::HWY_NAMESPACE::ForVectors;
using rows::HWY_NAMESPACE::Load;
using rows::HWY_NAMESPACE::Store;
using rows::HWY_NAMESPACE::Vec;

constexpr size_t kLanes = HWY_LANES(float);
constexpr size_t kPanel = 2 * kLanes;                         // columns of a tile
constexpr size_t kTileRows = HWY_LANES(float) >= 16 ? 8 : 4;  // rows of a tile: few enough for sums in registers

inline size_t InPanels(size_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

// Tile: c[r][0, kPanel) = sum over k < count of a.at[r * a.row + k * a.step] * b[k * b_step + [0, kPanel)), plus the
// old c with kAdd; r < kRows, and rows of c are c_row apart.
struct Left {
  const float* at;
  size_t row, step;
};
template <size_t kRows, bool kAdd>
HWY_INLINE void Tile(Left a, const float* b, size_t b_step, size_t count, float* c, size_t c_row) {
  const Floats d;
  Vec low[kRows], high[kRows];
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    low[r] = kAdd ? Load(c + r * c_row) : hn::Zero(d);
    high[r] = kAdd ? Load(c + r * c_row + kLanes) : hn::Zero(d);
  }
  for (size_t k = 0; k < count; ++k) {
    const Vec b_low = Load(b), b_high = Load(b + kLanes);
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) {
      const Vec x = hn::Set(d, a.at[r * a.row]);
      low[r] = hn::MulAdd(x, b_low, low[r]);
      high[r] = hn::MulAdd(x, b_high, high[r]);
    }
    a.at += a.step;
    b += b_step;
  }
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    Store(low[r], c + r * c_row);
    Store(high[r], c + r * c_row + kLanes);
  }
}

// Calls body(first row, number of rows as a constant) until [0, count) is covered, mostly in whole tiles.
template <typename Body>
HWY_INLINE void ForTiles(size_t count, const Body& body) {
  size_t r = 0;
  for (; r + kTileRows <= count; r += kTileRows) body(r, std::integral_constant<size_t, kTileRows>());
  for (; r + 2 <= count; r += 2) body(r, std::integral_constant<size_t, 2>());
  for (; r < count; ++r) body(r, std::integral_constant<size_t, 1>());
}

// Widens `count` rows of `width` values at `from`, `stride` apart; the rest of each row of `to` is zero.
template <typename T>
void Widen(const T* from, size_t stride, size_t count, size_t width, float* to) {
  const size_t filled = InPanels(width);
  for (size_t row = 0; row < count; ++row, from += stride, to += filled) {
    ForVectors(width, [&](size_t i, auto part) HWY_ATTR { part(part(from + i), to + i); });
    std::fill(to + width, to + filled, 0.0F);
  }
}

// to[i][p] = from[p][i] for p < count, i < width; `columns` between consecutive i, zeros after count.
inline void Transpose(const float* from, size_t count, size_t width, size_t columns, float* to) {
  const size_t filled = InPanels(width);
  for (size_t first = 0; first < count; first += kPanel) {
    const size_t here = std::min(kPanel, count - first);
    for (size_t i = 0; i < width; ++i) {
      float* place = to + i * columns + first;
      for (size_t p = 0; p < here; ++p) place[p] = from[(first + p) * filled + i];
      std::fill(place + here, place + kPanel, 0.0F);
    }
  }
}

// The reverse of Widen: writes the first `width` of each row of `filled` values, rounded if T is bf16.
template <typename T>
void Narrow(const float* from, size_t filled, size_t count, size_t width, T* to, size_t stride) {
  for (size_t row = 0; row < count; ++row, from += filled, to += stride) {
    ForVectors(width, [&](size_t i, auto part) HWY_ATTR { part(part(from + i), to + i); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::attention
HWY_AFTER_NAMESPACE();

#endif  // the toggle
