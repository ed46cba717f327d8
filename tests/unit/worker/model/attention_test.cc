// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient against their formulas in double, on every instruction set of this
// processor.
#include "worker/model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/format/number_formats.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace atl::attention {
namespace {

template <typename T>
struct Numbers;
template <>
struct Numbers<float> {
  static float From(double x) { return static_cast<float>(x); }
  static double To(float x) { return x; }
  static constexpr double kTolerance = 1e-5;
};
template <>
struct Numbers<uint16_t> {
  static uint16_t From(double x) { return Bf16FromFloat(static_cast<float>(x)); }
  static double To(uint16_t x) { return FloatFromBf16(x); }
  static constexpr double kTolerance = 1e-2;
};

struct Shape {
  size_t length, head_dim, query_heads;
  std::vector<int32_t> starts;
};

// The second key head of three: its neighbours must not change.
constexpr size_t kBefore = 5, kBehind = 3;

template <typename T>
struct Case {
  explicit Case(const Shape& wanted) : shape(wanted) {
    stride = kBefore + (shape.query_heads + 2) * shape.head_dim + kBehind;
    mixed_stride = kBefore + shape.query_heads * shape.head_dim + kBehind;
    qkv = Random(1, shape.length * stride);
    dmixed = Random(2, shape.length * mixed_stride);
    mixed.assign(shape.length * mixed_stride, Numbers<T>::From(7));
    dqkv.assign(shape.length * stride, Numbers<T>::From(7));
    log_sums.resize(shape.query_heads * shape.length);
  }
  static std::vector<T> Random(uint64_t key, size_t size) {
    std::vector<T> out(size);
    for (size_t i = 0; i < size; ++i) out[i] = Numbers<T>::From(static_cast<double>(NormalAt(key, i)));
    return out;
  }
  size_t key_at() const { return kBefore + shape.query_heads * shape.head_dim; }
  void Run() {
    HeadGroup<T> group;
    group.queries = qkv.data() + kBefore;
    group.keys = qkv.data() + key_at();
    group.values = group.keys + shape.head_dim;
    group.stride = stride;
    group.length = shape.length;
    group.head_dim = shape.head_dim;
    group.query_heads = shape.query_heads;
    group.starts = shape.starts.empty() ? nullptr : shape.starts.data();
    const Mixed<T> where{mixed.data() + kBefore, mixed_stride, log_sums.data()};
    Forward(group, where);
    Backward(group, where,
             {dmixed.data() + kBefore, dqkv.data() + kBefore, dqkv.data() + key_at(),
              dqkv.data() + key_at() + shape.head_dim});
  }
  size_t StartOf(size_t query) const { return shape.starts.empty() ? 0 : static_cast<size_t>(shape.starts[query]); }

  Shape shape;
  size_t stride, mixed_stride;
  std::vector<T> qkv, dmixed, mixed, dqkv;
  std::vector<float> log_sums;
};

struct Expected {
  std::vector<double> mixed, dqkv, log_sums;
};

// The share of one query in every result.
template <typename T>
void AddQuery(const Case<T>& c, size_t head, size_t query, Expected& out) {
  const size_t d = c.shape.head_dim, start = c.StartOf(query);
  const auto in_qkv = [&](size_t position, size_t first, size_t i) { return position * c.stride + first + i; };
  const auto value = [&](size_t at) { return Numbers<T>::To(c.qkv[at]); };
  const size_t q = kBefore + head * d, k = c.key_at(), v = k + d;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  std::vector<double> p;
  double sum = 0, mean = 0;
  for (size_t key = start; key <= query; ++key) {
    double score = 0;
    for (size_t i = 0; i < d; ++i) score += value(in_qkv(query, q, i)) * value(in_qkv(key, k, i));
    p.push_back(std::exp(scale * score));
    sum += p.back();
  }
  out.log_sums[head * c.shape.length + query] = std::log(sum);
  std::vector<double> dp(p.size());
  for (size_t n = 0; n < p.size(); ++n) {
    p[n] /= sum;
    for (size_t i = 0; i < d; ++i) {
      const size_t at = query * c.mixed_stride + kBefore + head * d + i;
      const double dout = Numbers<T>::To(c.dmixed[at]);
      out.mixed[at] += p[n] * value(in_qkv(start + n, v, i));
      out.dqkv[in_qkv(start + n, v, i)] += p[n] * dout;
      dp[n] += dout * value(in_qkv(start + n, v, i));
    }
    mean += p[n] * dp[n];
  }
  for (size_t n = 0; n < p.size(); ++n) {
    const double dscore = scale * p[n] * (dp[n] - mean);
    for (size_t i = 0; i < d; ++i) {
      out.dqkv[in_qkv(query, q, i)] += dscore * value(in_qkv(start + n, k, i));
      out.dqkv[in_qkv(start + n, k, i)] += dscore * value(in_qkv(query, q, i));
    }
  }
}

template <typename T>
Expected ByFormula(const Case<T>& c) {
  Expected out{std::vector<double>(c.mixed.size()), std::vector<double>(c.dqkv.size()),
               std::vector<double>(c.log_sums.size())};
  for (size_t head = 0; head < c.shape.query_heads; ++head) {
    for (size_t query = 0; query < c.shape.length; ++query) AddQuery(c, head, query, out);
  }
  for (size_t position = 0; position < c.shape.length; ++position) {
    for (size_t i = 0; i < c.stride; ++i) {
      if (i < kBefore || i >= c.stride - kBehind) out.dqkv[position * c.stride + i] = 7;
    }
    for (size_t i = 0; i < c.mixed_stride; ++i) {
      if (i < kBefore || i >= c.mixed_stride - kBehind) out.mixed[position * c.mixed_stride + i] = 7;
    }
  }
  return out;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double value = 0;
    if constexpr (std::is_same_v<T, uint16_t>) {
      value = FloatFromBf16(got[i]);
    } else {
      value = static_cast<double>(got[i]);
    }
    ASSERT_NEAR(value, expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

template <typename T>
class Attention : public testing::Test {};
using Types = testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(Attention, Types);

TYPED_TEST(Attention, IsItsFormulaAndSoIsItsGradient) {
  std::vector<int32_t> documents(100);  // of 1, 39 and 60 positions
  for (size_t i = 1; i < documents.size(); ++i) documents[i] = i < 40 ? 1 : 40;
  const std::vector<Shape> shapes = {{1, 1, 1, {}},   {2, 8, 2, {}},    {31, 33, 1, {}},       {32, 32, 1, {}},
                                     {33, 24, 3, {}}, {130, 64, 2, {}}, {100, 8, 2, documents}};
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + ", length " + std::to_string(shape.length) + ", head_dim " +
                   std::to_string(shape.head_dim));
      Case<TypeParam> c(shape);
      c.Run();
      const Expected expected = ByFormula(c);
      ExpectNear(c.mixed, expected.mixed, Numbers<TypeParam>::kTolerance);
      ExpectNear(c.log_sums, expected.log_sums, 1e-5);
      // A sum over many queries: their roundings add up.
      ExpectNear(c.dqkv, expected.dqkv, 5 * Numbers<TypeParam>::kTolerance);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TYPED_TEST(Attention, LargeScoresDoNotOverflow) {
  Case<TypeParam> c({40, 16, 1, {}});
  for (TypeParam& x : c.qkv) x = Numbers<TypeParam>::From(100 * Numbers<TypeParam>::To(x));
  c.Run();
  for (const TypeParam x : c.mixed) EXPECT_TRUE(std::isfinite(Numbers<TypeParam>::To(x)));
  for (const TypeParam x : c.dqkv) EXPECT_TRUE(std::isfinite(Numbers<TypeParam>::To(x)));
}

TYPED_TEST(Attention, NonFiniteValuesPropagate) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const bool value : {false, true}) {
      Case<TypeParam> c({40, 16, 1, {}});
      const size_t position = 20;
      c.qkv[position * c.stride + c.key_at() + (value ? c.shape.head_dim : 0)] = Numbers<TypeParam>::From(bad);
      c.Run();
      EXPECT_FALSE(std::all_of(c.mixed.begin(), c.mixed.end(),
                               [](TypeParam x) { return std::isfinite(Numbers<TypeParam>::To(x)); }))
          << bad << " in a " << (value ? "value" : "key");
    }
  }
}

}  // namespace
}  // namespace atl::attention
