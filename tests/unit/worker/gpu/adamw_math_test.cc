// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the CUDA optimizer on the host: AdamW in double, within fp32's rounding.
#include "worker/gpu/adamw_math.h"

#include <algorithm>
#include <limits>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/train/scalar_adamw.h"
#include "worker/device/step_kernels.h"

namespace atl {
namespace {

using adamw_math::Element;

InnerOptimizerSpec Spec() {
  InnerOptimizerSpec out;
  out.beta1 = 0.9, out.beta2 = 0.95, out.epsilon = 1e-8;
  return out;
}

void ExpectFollowsDouble(double decay, double gradient_factor, double gradient_scale) {
  const InnerOptimizerSpec spec = Spec();
  const double rate = 3e-3;
  Rng random(17);
  ScalarAdamW wanted;
  double parameter = 0.75;
  Element got{0.75f, 0, 0, 0};
  for (uint64_t step = 1; step <= 200; ++step) {
    got.gradient = static_cast<float>((random.Uniform() * 2 - 1) * gradient_scale);
    parameter = wanted.Update(parameter, static_cast<double>(got.gradient) * gradient_factor, rate, decay, spec);
    got =
        adamw_math::Updated(got, FactorsOf({rate, decay, spec.beta1, spec.beta2, spec.epsilon, step, gradient_factor}));
    // One rounding of the parameter per step, and the roundings of the step itself.
    ASSERT_NEAR(static_cast<double>(got.parameter), parameter, 1.2e-7 * static_cast<double>(step)) << "step " << step;
    ASSERT_NEAR(static_cast<double>(got.first), wanted.m, 1e-6 * gradient_scale * gradient_factor) << "step " << step;
    ASSERT_NEAR(static_cast<double>(got.second), wanted.v, 1e-5 * wanted.v) << "step " << step;
  }
  EXPECT_GT(std::fabs(parameter - 0.75), 1e-3) << "the parameter did not move";
}

TEST(AdamwMath, FollowsDoublePrecision) {
  ExpectFollowsDouble(0, 1, 1);
  ExpectFollowsDouble(0.1, 1, 1);
  ExpectFollowsDouble(0.1, 0.125, 1e-4);
  ExpectFollowsDouble(0, 0.3, 100);
}

TEST(AdamwMath, LeavesTheScaledGradient) {
  const Element got = adamw_math::Updated({1, 3, 0, 0}, FactorsOf({0.1, 0, 0.9, 0.95, 1e-8, 1, 0.25}));
  EXPECT_EQ(got.gradient, 0.75f);
  EXPECT_NEAR(static_cast<double>(got.parameter), 0.9,
              1e-6);  // a first step moves by the learning rate against the sign
}

TEST(AdamwMath, AnElementWithoutGradientOnlyDecays) {
  const Element got = adamw_math::Updated({2, 0, 0, 0}, FactorsOf({0.5, 0.5, 0.9, 0.95, 1e-8, 1, 1}));
  EXPECT_EQ(got.parameter, 1.5f);
  EXPECT_EQ(got.first, 0.0f);
  EXPECT_EQ(got.second, 0.0f);
}

TEST(AdamwMath, RoundsToTheNearestBfloat16) {
  for (uint32_t high = 0; high < 0x10000u; ++high) {
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = high << 16 | low;
      const float x = codec_math::FloatOf(bits);
      const uint32_t got = adamw_math::Rounded(x);
      if (std::isnan(x)) {
        ASSERT_EQ(got, 0x7fc0u);
        continue;
      }
      // The codec's rounding, except that larger values become infinity.
      const bool overflows = codec_math::Magnitude(bits) >= 0x7f7f8000u;
      const uint32_t wanted = overflows ? (bits >> 16 & 0x8000u) | 0x7f80u : codec_math::Bfloat16FromBits(bits);
      ASSERT_EQ(got, wanted) << std::hex << bits;
    }
  }
}

TEST(AdamwMath, SumsAreThoseOfDoublePrecision) {
  for (const size_t size : {1ul, 255ul, 4096ul, 4097ul, 20'000ul}) {
    const std::vector<float> values = adamw_cases::RandomState(size, size).parameters;
    const std::vector<float> sums = adamw_cases::Sums(values);
    ASSERT_EQ(sums.size(), (size + 4095) / 4096);
    for (size_t block = 0; block < sums.size(); ++block) {
      double wanted = 0;
      for (size_t i = block * 4096; i < std::min(size, (block + 1) * 4096); ++i) {
        wanted += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      }
      EXPECT_NEAR(static_cast<double>(sums[block]), wanted, 2e-6 * wanted) << size << ", block " << block;
    }
  }
}

}  // namespace
}  // namespace atl
