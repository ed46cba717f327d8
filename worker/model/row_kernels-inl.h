// SPDX-License-Identifier: Apache-2.0
// The SIMD implementation, compiled once per instruction set by row_kernels.cc.
#if defined(ATOLL_WORKER_MODEL_ROW_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_WORKER_MODEL_ROW_KERNELS_INL_H_
#undef ATOLL_WORKER_MODEL_ROW_KERNELS_INL_H_
#else
#define ATOLL_WORKER_MODEL_ROW_KERNELS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>

#include "common/vecmath/row_vectors-inl.h"
#include "hwy/highway.h"
#include "worker/model/row_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace atl::rows {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline float Sum(Vec v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }

template <typename T>
void NormOf(Shape shape, const NormArguments<T>& a) {
  const Floats d;
  const size_t n = shape.width;
  for (size_t row = 0; row < shape.count; ++row) {
    const size_t at = row * n;
    const T* read = a.x + at;
    Vec squares = hn::Zero(d);
    if (a.add != nullptr) {
      ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
        const Vec sum = hn::Add(part(a.x + at + i), part(a.add + at + i));
        part(sum, a.sum + at + i);
        const Vec kept = part(a.sum + at + i);  // as rounded
        squares = hn::MulAdd(kept, kept, squares);
      });
      read = a.sum + at;
    } else {
      ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
        const Vec x = part(read + i);
        squares = hn::MulAdd(x, x, squares);
      });
    }
    const float root =
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(Sum(squares)) / static_cast<double>(n) + a.eps));
    a.roots[row] = root;
    const Vec factor = hn::Set(d, root);
    ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
      part(hn::Mul(hn::Mul(part(read + i), factor), part(a.weight + i)), a.normed + at + i);
    });
  }
}

template <typename T>
void NormGradientOf(Shape shape, const NormGradientArguments<T>& a) {
  const Floats d;
  const size_t n = shape.width;
  for (size_t row = 0; row < shape.count; ++row) {
    const size_t at = row * n;
    const Vec root = hn::Set(d, a.roots[row]);
    Vec products = hn::Zero(d);  // of the unit vector with its gradient
    ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
      const Vec dy = part(a.dy + at + i), unit = hn::Mul(part(a.x + at + i), root);
      const Vec by_weight = hn::Mul(dy, unit);
      part(hn::Add(part(a.weight_sum + i), by_weight), a.weight_sum + i);
      products = hn::MulAdd(by_weight, part(a.weight + i), products);
    });
    const Vec mean = hn::Set(d, Sum(products) / static_cast<float>(n));
    ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
      const Vec dy = part(a.dy + at + i), unit = hn::Mul(part(a.x + at + i), root);
      Vec dx = hn::Mul(root, hn::NegMulAdd(unit, mean, hn::Mul(dy, part(a.weight + i))));
      if (a.base != nullptr) dx = hn::Add(dx, part(a.base + at + i));
      part(dx, a.dx + at + i);
    });
  }
}

template <typename T>
void RotateOf(Shape heads, const float* cos, const float* sin, bool backwards, T* x) {
  const Floats d;
  const size_t half = heads.width / 2;
  const Vec sign = hn::Set(d, backwards ? -1.0f : 1.0f);
  for (size_t head = 0; head < heads.count; ++head) {
    T* first = x + head * heads.width;
    T* second = first + half;
    ForVectors(half, [&](size_t i, auto part) HWY_ATTR {
      const Vec a = part(first + i), b = part(second + i), c = part(cos + i), s = hn::Mul(sign, part(sin + i));
      part(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i);
      part(hn::MulAdd(a, s, hn::Mul(b, c)), second + i);
    });
  }
}

inline Vec Sigmoid(Vec x) {
  const Vec one = hn::Set(Floats(), 1.0f);
  return hn::Div(one, hn::Add(one, Exp(hn::Neg(x))));
}

template <typename T>
void SwiGluOf(Shape shape, const T* gate_up, T* out) {
  const size_t n = shape.width;
  for (size_t row = 0; row < shape.count; ++row) {
    const T* gates = gate_up + 2 * row * n;
    ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
      const Vec gate = part(gates + i);
      part(hn::Mul(hn::Mul(gate, Sigmoid(gate)), part(gates + n + i)), out + row * n + i);
    });
  }
}

template <typename T>
void SwiGluGradientOf(Shape shape, const T* dout, T* gate_up) {
  const Floats d;
  const size_t n = shape.width;
  for (size_t row = 0; row < shape.count; ++row) {
    T* gates = gate_up + 2 * row * n;
    T* ups = gates + n;
    ForVectors(n, [&](size_t i, auto part) HWY_ATTR {
      const Vec gate = part(gates + i), up = part(ups + i), dy = part(dout + row * n + i);
      const Vec s = Sigmoid(gate), silu = hn::Mul(gate, s);
      // silu' = s + silu (1 - s)
      const Vec slope = hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0f), s), s);
      part(hn::Mul(hn::Mul(dy, up), slope), gates + i);
      part(hn::Mul(dy, silu), ups + i);
    });
  }
}

template <typename T>
float At(const T* p) {
  return hn::GetLane(Partial{1}(p));
}

// The largest of the n values of a row, in every lane. May miss a NaN; SumOfExp is then NaN.
template <typename T>
Vec Largest(const T* row, size_t n) {
  const Floats d;
  const size_t lanes = hn::Lanes(d), whole = n - n % lanes;
  Vec most = hn::Set(d, At(row));
  for (size_t i = 0; i < whole; i += lanes) most = hn::Max(most, Load(row + i));
  if (whole < n) most = hn::Max(most, hn::IfThenElse(hn::FirstN(d, n - whole), Partial{n - whole}(row + whole), most));
  return hn::MaxOfLanes(d, most);
}

template <typename T>
float SumOfExp(const T* row, size_t n, Vec largest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d), whole = n - n % lanes;
  Vec sum = hn::Zero(d);
  for (size_t i = 0; i < whole; i += lanes) sum = hn::Add(sum, Exp(hn::Sub(Load(row + i), largest)));
  if (whole < n) {
    const Vec e = Exp(hn::Sub(Partial{n - whole}(row + whole), largest));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, n - whole), e));
  }
  return Sum(sum);
}

template <typename T>
double CrossEntropyOf(Shape shape, const int64_t* targets, double scale, double z_loss, T* scores) {
  const Floats d;
  const size_t n = shape.width;
  double nll = 0;
  for (size_t row = 0; row < shape.count; ++row) {
    T* scored = scores + row * n;
    T* target = scored + targets[row];
    const Vec largest = Largest(scored, n);
    const double sum = static_cast<double>(SumOfExp(scored, n, largest));
    const double log_sum = static_cast<double>(hn::GetLane(largest)) + std::log(sum);
    const double loss = log_sum - static_cast<double>(At(target));
    nll += loss;
    const double share = scale * (1.0 + 2.0 * z_loss * log_sum);  // factor of every probability
    const Vec factor = hn::Set(d, static_cast<float>(share / sum));
    ForVectors(n, [&](size_t i, auto part)
                      HWY_ATTR { part(hn::Mul(factor, Exp(hn::Sub(part(scored + i), largest))), scored + i); });
    Partial{1}(hn::Set(d, static_cast<float>(share * std::exp(-loss) - scale)), target);
  }
  return nll;
}

void RoundToBf16(size_t count, const float* x, float* out) {
  std::array<uint16_t, kMostLanes> bits{};
  ForVectors(count, [&](size_t i, auto part) HWY_ATTR {
    Store(part(x + i), bits.data());
    part(Load(bits.data()), out + i);
  });
}

#define ATOLL_FOR_BOTH(X) X(float, F32) X(uint16_t, Bf16)
#define ATOLL_ROW_KERNELS(T, N)                                                                              \
  void Norm##N(Shape shape, const NormArguments<T>& a) { NormOf(shape, a); }                                 \
  void NormGradient##N(Shape shape, const NormGradientArguments<T>& a) { NormGradientOf(shape, a); }         \
  void Rotate##N(Shape heads, const float* cos, const float* sin, bool backwards, T* x) {                    \
    RotateOf(heads, cos, sin, backwards, x);                                                                 \
  }                                                                                                          \
  void SwiGlu##N(Shape shape, const T* gate_up, T* out) { SwiGluOf(shape, gate_up, out); }                   \
  void SwiGluGradient##N(Shape shape, const T* dout, T* gate_up) { SwiGluGradientOf(shape, dout, gate_up); } \
  double CrossEntropy##N(Shape shape, const int64_t* targets, double scale, double z_loss, T* scores) {      \
    return CrossEntropyOf(shape, targets, scale, z_loss, scores);                                            \
  }
ATOLL_FOR_BOTH(ATOLL_ROW_KERNELS)
#undef ATOLL_ROW_KERNELS

}  // namespace HWY_NAMESPACE
}  // namespace atl::rows
HWY_AFTER_NAMESPACE();

#endif  // the toggle
