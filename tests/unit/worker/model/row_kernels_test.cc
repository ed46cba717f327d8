// SPDX-License-Identifier: Apache-2.0
// The kernels between matrix products against their formulas in double, gradients by the explicit
// chain rule.
#include "worker/model/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/format/number_formats.h"
#include "gtest/gtest.h"

namespace atl::rows {
namespace {

constexpr double kEps = 1e-5;

template <typename T>
struct Numbers;
template <>
struct Numbers<float> {
  static float From(double x) { return static_cast<float>(x); }
  static double To(float x) { return x; }
  static constexpr double kTolerance = 4e-6;
};
template <>
struct Numbers<uint16_t> {
  static uint16_t From(double x) { return Bf16FromFloat(static_cast<float>(x)); }
  static double To(uint16_t x) { return FloatFromBf16(x); }
  static constexpr double kTolerance = 6e-3;
};

template <typename T>
class RowKernels : public testing::Test {
 protected:
  std::vector<T> Random(size_t size, uint64_t key) {
    std::vector<T> out(size);
    for (size_t i = 0; i < size; ++i) out[i] = Numbers<T>::From(static_cast<double>(NormalAt(key, i)));
    return out;
  }
  static std::vector<double> Doubles(const std::vector<T>& x) {
    std::vector<double> out;
    for (const T v : x) out.push_back(Numbers<T>::To(v));
    return out;
  }
  static void ExpectNear(const std::vector<T>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(Numbers<T>::To(got[i]), expected[i], Numbers<T>::kTolerance * (1 + std::abs(expected[i]))) << i;
    }
  }
};
using Types = testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(RowKernels, Types);

constexpr size_t kRows = 3;
constexpr size_t kWidths[] = {1, 2, 7, 16, 33, 256};  // below, at and beyond every vector's length

TYPED_TEST(RowKernels, NormAddsAndDividesByTheRoot) {
  for (const size_t n : kWidths) {
    const auto x = this->Random(kRows * n, 1), add = this->Random(kRows * n, 2), weight = this->Random(n, 3);
    std::vector<TypeParam> sum(kRows * n), normed(kRows * n);
    std::vector<float> roots(kRows);
    Norm({kRows, n}, NormArguments<TypeParam>{.x = x.data(),
                                              .add = add.data(),
                                              .weight = weight.data(),
                                              .sum = sum.data(),
                                              .normed = normed.data(),
                                              .roots = roots.data(),
                                              .eps = kEps});
    const auto a = this->Doubles(x), b = this->Doubles(add), w = this->Doubles(weight), s = this->Doubles(sum);
    std::vector<double> sums(kRows * n), expected(kRows * n);
    for (size_t row = 0; row < kRows; ++row) {
      double squares = 0;
      for (size_t i = row * n; i < (row + 1) * n; ++i) {
        sums[i] = a[i] + b[i];
        squares += s[i] * s[i];
      }
      const double root = 1 / std::sqrt(squares / static_cast<double>(n) + kEps);
      EXPECT_NEAR(roots[row] / root, 1, 1e-6);
      for (size_t i = 0; i < n; ++i) expected[row * n + i] = s[row * n + i] * root * w[i];
    }
    this->ExpectNear(sum, sums);
    this->ExpectNear(normed, expected);
    std::vector<TypeParam> alone(kRows * n);
    Norm({kRows, n},
         NormArguments<TypeParam>{
             .x = sum.data(), .weight = weight.data(), .normed = alone.data(), .roots = roots.data(), .eps = kEps});
    EXPECT_EQ(alone, normed);
  }
}

// y_i = w_i x_i r with r = (mean(x^2) + eps)^-1/2, so dr/dx_j = -r^3 x_j / n.
TYPED_TEST(RowKernels, NormGradientIsTheChainRule) {
  for (const size_t n : kWidths) {
    const auto x = this->Random(kRows * n, 1), dy = this->Random(kRows * n, 2), weight = this->Random(n, 3);
    const auto base = this->Random(kRows * n, 4);
    const auto a = this->Doubles(x), g = this->Doubles(dy), w = this->Doubles(weight), added = this->Doubles(base);
    std::vector<float> roots(kRows), weight_sum(n, 0.5f);
    std::vector<double> expected(kRows * n), weights(n, 0.5);
    for (size_t row = 0; row < kRows; ++row) {
      const size_t at = row * n;
      double squares = 0, products = 0;
      for (size_t i = at; i < at + n; ++i) squares += a[i] * a[i];
      const double r = 1 / std::sqrt(squares / static_cast<double>(n) + kEps);
      roots[row] = static_cast<float>(r);
      for (size_t i = 0; i < n; ++i) {
        products += g[at + i] * w[i] * a[at + i];
        weights[i] += g[at + i] * a[at + i] * r;
      }
      for (size_t i = 0; i < n; ++i) {
        expected[at + i] =
            r * g[at + i] * w[i] - r * r * r * a[at + i] * products / static_cast<double>(n) + added[at + i];
      }
    }
    std::vector<TypeParam> dx = base;
    NormGradient({kRows, n}, NormGradientArguments<TypeParam>{.dy = dy.data(),
                                                              .x = x.data(),
                                                              .weight = weight.data(),
                                                              .roots = roots.data(),
                                                              .base = dx.data(),
                                                              .dx = dx.data(),
                                                              .weight_sum = weight_sum.data()});
    this->ExpectNear(dx, expected);
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(weight_sum[i], weights[i], 1e-5 * (1 + std::abs(weights[i])));
  }
}

TYPED_TEST(RowKernels, RotationTurnsEachPairAndBack) {
  for (const size_t half : kWidths) {
    auto x = this->Random(kRows * 2 * half, 1);
    const auto before = this->Doubles(x);
    std::vector<float> cos(half), sin(half);
    for (size_t i = 0; i < half; ++i) {
      cos[i] = std::cos(0.3f * static_cast<float>(i + 1));
      sin[i] = std::sin(0.3f * static_cast<float>(i + 1));
    }
    std::vector<double> expected(before.size());
    for (size_t head = 0; head < kRows; ++head) {
      for (size_t i = 0; i < half; ++i) {
        const size_t a = head * 2 * half + i, b = a + half;
        const double c = static_cast<double>(cos[i]), s = static_cast<double>(sin[i]);
        expected[a] = before[a] * c - before[b] * s;
        expected[b] = before[b] * c + before[a] * s;
      }
    }
    Rotate({kRows, 2 * half}, cos.data(), sin.data(), false, x.data());
    this->ExpectNear(x, expected);
    Rotate({kRows, 2 * half}, cos.data(), sin.data(), true, x.data());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(Numbers<TypeParam>::To(x[i]), before[i],
                  3 * Numbers<TypeParam>::kTolerance * (1 + std::abs(before[i])));
    }
  }
}

TYPED_TEST(RowKernels, SwiGluAndItsGradient) {
  for (const size_t n : kWidths) {
    auto gate_up = this->Random(kRows * 2 * n, 1);
    for (size_t i = 0; i < gate_up.size(); i += 5) gate_up[i] = Numbers<TypeParam>::From(i % 2 == 0 ? 120.0 : -120.0);
    const auto dout = this->Random(kRows * n, 2);
    const auto in = this->Doubles(gate_up), g = this->Doubles(dout);
    std::vector<double> expected(kRows * n), gradient(kRows * 2 * n);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < n; ++i) {
        const size_t a = row * 2 * n + i, b = a + n, o = row * n + i;
        const double s = 1 / (1 + std::exp(-in[a]));
        expected[o] = in[a] * s * in[b];
        gradient[a] = g[o] * in[b] * (s + in[a] * s * (1 - s));
        gradient[b] = g[o] * in[a] * s;
      }
    }
    std::vector<TypeParam> out(kRows * n);
    SwiGlu({kRows, n}, gate_up.data(), out.data());
    this->ExpectNear(out, expected);
    SwiGluGradient({kRows, n}, dout.data(), gate_up.data());
    this->ExpectNear(gate_up, gradient);
  }
}

TYPED_TEST(RowKernels, CrossEntropyAndItsGradient) {
  for (const size_t n : kWidths) {
    auto scores = this->Random(kRows * n, 1);
    if (n > 2) scores[n - 1] = Numbers<TypeParam>::From(90.0);  // e^90 is beyond fp32
    const std::vector<int64_t> targets = {0, static_cast<int64_t>(n) - 1, static_cast<int64_t>(n) / 2};
    const auto in = this->Doubles(scores);
    const double scale = 0.25, z = 0.05;
    double nll = 0;
    std::vector<double> gradient(kRows * n);
    for (size_t row = 0; row < kRows; ++row) {
      const double most = *std::max_element(in.begin() + static_cast<ptrdiff_t>(row * n),
                                            in.begin() + static_cast<ptrdiff_t>((row + 1) * n));
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += std::exp(in[row * n + i] - most);
      const double log_sum = most + std::log(sum);
      const auto target = static_cast<size_t>(targets[row]);
      nll += log_sum - in[row * n + target];
      for (size_t i = 0; i < n; ++i) {
        const double p = std::exp(in[row * n + i] - log_sum);
        gradient[row * n + i] = scale * (p - (i == target ? 1 : 0) + 2 * z * log_sum * p);
      }
    }
    EXPECT_NEAR(CrossEntropy({kRows, n}, targets.data(), scale, z, scores.data()), nll, 2e-6 * (1 + std::abs(nll)));
    this->ExpectNear(scores, gradient);
  }
}

TYPED_TEST(RowKernels, NonFiniteValuesPropagate) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const size_t n : kWidths) {
    for (const double bad : {nan, infinity}) {
      for (size_t at = 0; at < n; at += std::max<size_t>(1, n / 3)) {
        auto scores = this->Random(n, 1);
        scores[at] = Numbers<TypeParam>::From(bad);
        const int64_t target = static_cast<int64_t>(n) / 2;
        EXPECT_FALSE(std::isfinite(CrossEntropy({1, n}, &target, 1.0, 0.0, scores.data()))) << n << " " << at;
        auto gate_up = this->Random(2 * n, 2);
        gate_up[at] = Numbers<TypeParam>::From(bad);
        std::vector<TypeParam> out(n);
        SwiGlu({1, n}, gate_up.data(), out.data());
        EXPECT_FALSE(std::isfinite(Numbers<TypeParam>::To(out[at])));
      }
    }
  }
}

}  // namespace
}  // namespace atl::rows
