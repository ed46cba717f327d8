// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 against exhaustive round trips and against the compiler's own half precision type.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/codec/families.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace atl::codec {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Half, EveryValueSurvivesARoundTrip) {
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const uint16_t half = static_cast<uint16_t>(word);
    const float value = FloatFromHalf(half);
    if ((half & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(HalfFromFloat(value) & 0x7fff, 0x7e00);
    } else {
      ASSERT_EQ(HalfFromFloat(value), half);
    }
  }
}

#ifdef __FLT16_MAX__
TEST(Half, AgreesWithTheCompilersType) {
  Rng rng(11);
  for (int i = 0; i < 200000; ++i) {
    // Exponents from below half's subnormals to its largest value.
    const uint32_t exponent = 100 + static_cast<uint32_t>(rng.Below(43));
    const float x = std::bit_cast<float>(static_cast<uint32_t>(rng() & 0x807fffffu) | exponent << 23);
    if (std::fabs(x) >= 65520.0f) continue;
    const float wanted = static_cast<float>(static_cast<_Float16>(x));
    ASSERT_EQ(std::bit_cast<uint32_t>(FloatFromHalf(HalfFromFloat(x))), std::bit_cast<uint32_t>(wanted)) << x;
  }
}
#endif

TEST(Half, TiesGoToEven) {
  EXPECT_EQ(HalfFromFloat(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(HalfFromFloat(1.0f + 0x1.8p-10f), 0x3c02);
  EXPECT_EQ(HalfFromFloat(0x1p-25f), 0x0000);  // half of the smallest
  EXPECT_EQ(HalfFromFloat(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(HalfFromFloat(0x1.8p-24f), 0x0002);
  EXPECT_EQ(HalfFromFloat(0x1.ff8p-15f), 0x03ff);  // the largest subnormal
  EXPECT_EQ(HalfFromFloat(0x1.ffep-15f), 0x0400);  // rounds up into the normal range
}

TEST(Half, BeyondTheLargestSaturatesAndInfinityStays) {
  EXPECT_EQ(HalfFromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65520.0f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(-3e38f), 0xfbff);
  EXPECT_EQ(HalfFromFloat(kInf), 0x7c00);
  EXPECT_EQ(HalfFromFloat(-kInf), 0xfc00);
}

TEST(Bfloat16, EveryValueSurvivesARoundTrip) {
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const uint16_t bits = static_cast<uint16_t>(word);
    const float value = FloatFromBfloat16(bits);
    if (std::isnan(value)) {
      EXPECT_EQ(Bfloat16FromFloat(value) & 0x7fff, 0x7fc0);
    } else {
      ASSERT_EQ(Bfloat16FromFloat(value), bits);
    }
  }
}

TEST(Bfloat16, TiesGoToEvenAndTheLargestSaturates) {
  EXPECT_EQ(Bfloat16FromFloat(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(Bfloat16FromFloat(1.0f + 0x1.8p-7f), 0x3f82);
  EXPECT_EQ(Bfloat16FromFloat(0x1.010002p0f), 0x3f81);
  EXPECT_EQ(Bfloat16FromFloat(std::numeric_limits<float>::max()), 0x7f7f);
  EXPECT_EQ(Bfloat16FromFloat(-std::numeric_limits<float>::max()), 0xff7f);
  EXPECT_EQ(Bfloat16FromFloat(kInf), 0x7f80);
  EXPECT_EQ(Bfloat16FromFloat(0x1p-133f), 0x0001);  // the smallest subnormal
}

TEST(Bfloat16, IsWithinHalfAUnitInTheLastPlace) {
  Rng rng(12);
  for (int i = 0; i < 100000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    if (!std::isfinite(x) || std::fabs(x) > 3e38f) continue;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(x == 0 ? 1.0f : x), -126) - 7);
    ASSERT_LE(std::fabs(static_cast<double>(FloatFromBfloat16(Bfloat16FromFloat(x))) - static_cast<double>(x)),
              unit / 2);
  }
}

// Every 16-bit pattern, and every float exponent with edge-case mantissas, on each instruction set.
TEST(Spans, EveryInstructionSetGivesTheBitsOfTheReference) {
  std::vector<float> floats;
  for (uint32_t top = 0; top < 0x10000; ++top) {
    for (const uint32_t low :
         {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu}) {
      floats.push_back(std::bit_cast<float>(top << 16 | low));
    }
  }
  std::vector<uint16_t> words(0x10000 + 3);  // includes an odd tail
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint16_t>(i);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const bool half : {true, false}) {
      std::vector<uint16_t> encoded(floats.size());
      (half ? EncodeHalf : EncodeBfloat16)(floats, reinterpret_cast<std::byte*>(encoded.data()));
      for (size_t i = 0; i < floats.size(); ++i) {
        ASSERT_EQ(encoded[i], half ? HalfFromFloat(floats[i]) : Bfloat16FromFloat(floats[i])) << half << " " << i;
      }
      std::vector<float> decoded(words.size());
      (half ? DecodeHalf : DecodeBfloat16)(reinterpret_cast<const std::byte*>(words.data()), decoded);
      for (size_t i = 0; i < words.size(); ++i) {
        const float wanted = half ? FloatFromHalf(words[i]) : FloatFromBfloat16(words[i]);
        ASSERT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(wanted)) << half << " " << i;
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace atl::codec
