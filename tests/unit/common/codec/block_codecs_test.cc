// SPDX-License-Identifier: Apache-2.0
// int8, mxfp4 and e3m0: the scale rules, and that each element gets the nearest code that its scale
// allows.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/families.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

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

// A block for each kind of value: every exponent, the thresholds between codes and their
// neighbours, zeros, subnormals, non-finite values; and a tail.
std::vector<float> AwkwardValues() {
  std::vector<float> out;
  Rng rng(21);
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (size_t i = 0; i < kInt8Block; ++i) {
      const uint32_t lower = exponent - std::min(exponent, static_cast<uint32_t>(rng.Below(9)));
      out.push_back(std::bit_cast<float>((static_cast<uint32_t>(rng()) & 0x807fffffu) | lower << 23));
    }
  }
  for (const float top : {1.0f, 1.5f, 6.0f, 7.0f, 8.0f, 127.0f, 0x1.fffffep127f}) {
    for (int step = 0; step < 512; ++step) {
      const float x = top * static_cast<float>(step) / 512.0f;
      out.insert(out.end(), {x, -std::nextafter(x, 0.0f), std::nextafter(x, top), top});
    }
  }
  out.insert(out.end(), 2 * kInt8Block, -0.0f);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    out.insert(out.end(), 2 * kInt8Block - 1, 0.5f);
    out.push_back(bad);
  }
  out.insert(out.end(), 77, 0.3f);
  return out;
}

TEST(Spans, EveryInstructionSetGivesTheBitsOfTheBlockReference) {
  struct Case {
    Encoder encode, reference_encode;
    Decoder decode, reference_decode;
    size_t block, bytes;
  };
  const Case cases[] = {
      {EncodeInt8, scalar::EncodeInt8, DecodeInt8, scalar::DecodeInt8, kInt8Block, Int8Bytes(kInt8Block)},
      {EncodeMxfp4, scalar::EncodeMxfp4, DecodeMxfp4, scalar::DecodeMxfp4, kFp4Block, Fp4Bytes(kFp4Block)},
      {EncodeE3m0, scalar::EncodeE3m0, DecodeE3m0, scalar::DecodeE3m0, kFp4Block, Fp4Bytes(kFp4Block)}};
  const std::vector<float> values = AwkwardValues();
  for (const Case& c : cases) {
    std::vector<std::byte> wanted((values.size() / c.block + 1) * c.bytes), noise(64 * c.bytes);
    c.reference_encode(values, wanted.data());
    Rng rng(22);
    for (std::byte& b : noise) b = static_cast<std::byte>(rng());
    std::vector<float> wanted_noise(64 * c.block - 3), wanted_values(values.size());
    c.reference_decode(noise.data(), wanted_noise);
    c.reference_decode(wanted.data(), wanted_values);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + ", block " + std::to_string(&c - cases));
      std::vector<std::byte> encoded(wanted.size());
      c.encode(values, encoded.data());
      EXPECT_EQ(encoded, wanted);
      std::vector<float> decoded(values.size()), decoded_noise(wanted_noise.size());
      c.decode(wanted.data(), decoded);
      c.decode(noise.data(), decoded_noise);
      EXPECT_EQ(std::memcmp(decoded.data(), wanted_values.data(), decoded.size() * 4), 0);
      EXPECT_EQ(std::memcmp(decoded_noise.data(), wanted_noise.data(), decoded_noise.size() * 4), 0);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace atl::codec
