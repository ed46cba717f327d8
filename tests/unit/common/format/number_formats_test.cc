// SPDX-License-Identifier: Apache-2.0
#include "common/format/number_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"

namespace atl {
namespace {

TEST(NumberFormats, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = FloatFromHalf(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(value)))) << bits;
    } else {
      ASSERT_EQ(HalfFromFloat(value), half) << bits;
    }
  }
}

TEST(NumberFormats, EveryBf16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t bf16 = static_cast<uint16_t>(bits);
    const float value = FloatFromBf16(bf16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(value)))) << bits;
    } else {
      ASSERT_EQ(Bf16FromFloat(value), bf16) << bits;
    }
  }
}

// The nearer of the two neighbours, the even one for ties: checked by a search over all halves.
TEST(NumberFormats, HalfRoundsToNearestEven) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const float value = std::ldexp(static_cast<float>(rng.Uniform() * 2 - 1), static_cast<int>(rng.Below(44)) - 27);
    const uint16_t half = HalfFromFloat(value);
    const double error = std::abs(static_cast<double>(FloatFromHalf(half)) - value);
    if (!std::isfinite(FloatFromHalf(half))) {
      EXPECT_GE(std::abs(value), 65520.0f);
      continue;
    }
    for (const int step : {-1, 1}) {
      const uint16_t other = static_cast<uint16_t>(half + step);
      if (!std::isfinite(FloatFromHalf(other)) || std::signbit(FloatFromHalf(other)) != std::signbit(value)) continue;
      const double other_error = std::abs(static_cast<double>(FloatFromHalf(other)) - value);
      EXPECT_LE(error, other_error) << value;
      EXPECT_TRUE(error != other_error || (half & 1) == 0) << value;
    }
  }
}

TEST(NumberFormats, KnownValues) {
  EXPECT_EQ(HalfFromFloat(1.0f), 0x3c00);
  EXPECT_EQ(HalfFromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65519.0f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(HalfFromFloat(-1e10f), 0xfc00);
  EXPECT_EQ(HalfFromFloat(0x1p-24f), 0x0001);
  EXPECT_EQ(HalfFromFloat(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(HalfFromFloat(0x1.8p-25f), 0x0001);
  EXPECT_EQ(HalfFromFloat(-0.0f), 0x8000);
  EXPECT_EQ(Bf16FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // a tie, to even
  EXPECT_EQ(Bf16FromFloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(Bf16FromFloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(std::bit_cast<float>(0x7f800001u)))));
}

TEST(NumberFormats, BuffersAreLittleEndian) {
  const std::vector<float> values = {1.0f, -2.0f};
  std::vector<std::byte> raw(4);
  EncodeNumbers(NumberType::kBF16, values, raw);
  EXPECT_EQ(raw, (std::vector<std::byte>{std::byte{0x80}, std::byte{0x3f}, std::byte{0x00}, std::byte{0xc0}}));
  std::vector<float> back(2);
  DecodeNumbers(NumberType::kBF16, raw, back);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace atl
