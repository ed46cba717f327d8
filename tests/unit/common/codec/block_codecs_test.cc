// int8, mxfp4 and e3m0: the scale rules, and that each element takes the nearest code its scale allows.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/random.h"
#include "common/codec/families.h"
#include "gtest/gtest.h"

namespace atl::codec {
namespace {

std::array<float, kFp4Block> Block(uint64_t seed) {
  std::array<float, kFp4Block> block;
  for (size_t i = 0; i < block.size(); ++i)
    block[i] = NormalAt(seed, i) * std::exp2(static_cast<float>(seed % 60) - 30.0f);
  return block;
}

using Encoder = void (*)(std::span<const float>, std::byte*);
using Decoder = void (*)(const std::byte*, std::span<float>);

// The sixteen values that a four-bit block with this scale byte can hold.
std::array<float, 16> Palette(std::byte scale, Decoder decode) {
  std::array<std::byte, Fp4Bytes(16)> encoded;
  encoded[0] = scale;
  for (size_t i = 0; i < 8; ++i) encoded[1 + i] = static_cast<std::byte>(2 * i | (2 * i + 1) << 4);
  std::array<float, 16> values;
  decode(encoded.data(), values);
  return values;
}

void ExpectNearestCodes(Encoder encode, Decoder decode) {
  for (uint64_t seed = 1; seed < 200; ++seed) {
    const auto in = Block(seed);
    std::array<std::byte, Fp4Bytes(kFp4Block)> encoded;
    std::array<float, kFp4Block> out;
    encode(in, encoded.data());
    decode(encoded.data(), out);
    const auto palette = Palette(encoded[0], decode);
    for (size_t i = 0; i < in.size(); ++i) {
      float best = INFINITY;
      for (const float value : palette) best = std::min(best, std::fabs(value - in[i]));
      ASSERT_EQ(std::fabs(out[i] - in[i]), best) << "seed " << seed << " element " << i;
    }
  }
}

TEST(Mxfp4, TakesTheNearestCode) { ExpectNearestCodes(EncodeMxfp4, DecodeMxfp4); }
TEST(E3m0, TakesTheNearestCode) { ExpectNearestCodes(EncodeE3m0, DecodeE3m0); }

int ScaleByte(Encoder encode, float max_abs) {
  std::array<std::byte, 2> encoded;
  encode(std::span(&max_abs, 1), encoded.data());
  return static_cast<int>(encoded[0]);
}

TEST(Mxfp4, TheExponentIsRaisedWhereAbsmaxExceedsSevenScales) {
  EXPECT_EQ(ScaleByte(EncodeMxfp4, 4.0f), 127);
  EXPECT_EQ(ScaleByte(EncodeMxfp4, 7.0f), 127);
  EXPECT_EQ(ScaleByte(EncodeMxfp4, 7.0000005f), 128);
  EXPECT_EQ(ScaleByte(EncodeMxfp4, 8.0f), 128);
  EXPECT_EQ(ScaleByte(EncodeMxfp4, 0.0f), 0);
  EXPECT_EQ(ScaleByte(EncodeMxfp4, std::numeric_limits<float>::max()), 252);  // 2^125: six scales are finite
}

TEST(E3m0, TheScaleIsThePowerOfTwoNearestToAbsmax) {
  EXPECT_EQ(ScaleByte(EncodeE3m0, 1.0f), 127);
  EXPECT_EQ(ScaleByte(EncodeE3m0, 1.5f), 127);
  EXPECT_EQ(ScaleByte(EncodeE3m0, 1.5000001f), 128);
  EXPECT_EQ(ScaleByte(EncodeE3m0, std::numeric_limits<float>::max()), 254);
}

TEST(Int8, IsWithinHalfAScale) {
  for (uint64_t seed = 1; seed < 100; ++seed) {
    std::array<float, kInt8Block> in, out;
    for (size_t i = 0; i < in.size(); ++i) in[i] = NormalAt(seed, i);
    std::array<std::byte, Int8Bytes(kInt8Block)> encoded;
    EncodeInt8(in, encoded.data());
    DecodeInt8(encoded.data(), out);
    uint16_t bits;
    std::memcpy(&bits, encoded.data(), 2);
    const float scale = FloatFromBfloat16(bits);
    for (size_t i = 0; i < in.size(); ++i) ASSERT_LE(std::fabs(out[i] - in[i]), scale * 0.5000001f);
  }
}

TEST(BlockTails, HoldTheirElementsAndZeroPadding) {
  const std::array<float, 3> in = {6, 6, 6};
  std::array<std::byte, Fp4Bytes(3)> encoded;
  encoded.fill(std::byte{0xee});
  EncodeMxfp4(in, encoded.data());
  EXPECT_EQ(encoded[2], std::byte{0x07}) << "the unused half byte is zero";
  std::array<float, 3> out;
  DecodeMxfp4(encoded.data(), out);
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace atl::codec
