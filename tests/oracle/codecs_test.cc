// SPDX-License-Identifier: Apache-2.0
// The oracle's independent implementation of docs/formats/codecs.md against the project's codecs:
// the same bytes and bits.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "tests/oracle/oracle.h"

namespace atl::oracle {
namespace {

std::vector<std::byte> EncodeTwice(CodecKind codec, const std::vector<float>& values) {
  std::vector<std::byte> a(EncodedSize(codec, values.size())), b(a.size(), std::byte{0x55});
  EXPECT_EQ(EncodedBytes(codec, values.size()), a.size());
  Encode(codec, values, a);
  for (uint64_t first = 0; first < values.size(); first += kPieceElements) {
    EncodePiece(codec, std::span(values).subspan(first, std::min<size_t>(kPieceElements, values.size() - first)), first,
                b);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i], b[i]) << "codec " << CodecName(codec) << ", byte " << i;
    if (a[i] != b[i]) break;
  }
  return a;
}

// NaN equals NaN; everything else must have the same bits.
void ExpectSameDecoded(CodecKind codec, const std::vector<std::byte>& bytes, size_t elements) {
  std::vector<float> a(elements), b(elements);
  Decode(codec, bytes, a);
  for (uint64_t first = 0; first < elements; first += kPieceElements)
    DecodePiece(codec, bytes, first, std::span(b).subspan(first, std::min<size_t>(kPieceElements, elements - first)));
  for (size_t i = 0; i < elements; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << "codec " << CodecName(codec) << ", element " << i;
  }
}

void ExpectSame(const std::vector<float>& values) {
  for (const CodecKind codec : kCodecKinds) ExpectSameDecoded(codec, EncodeTwice(codec, values), values.size());
}

TEST(OracleCodecs, SizesOfEveryLength) {
  for (const CodecKind codec : kCodecKinds) {
    for (uint64_t n = 0; n < 300; ++n)
      EXPECT_EQ(EncodedBytes(codec, n), EncodedSize(codec, n)) << CodecName(codec) << " " << n;
  }
}

TEST(OracleCodecs, NormalValuesOfEveryMagnitude) {
  for (const float scale : {1.0f, 1e-3f, 1e-30f, 1e-38f, 1e-42f, 1e4f, 1e30f, 5e37f}) {
    std::vector<float> values(2 * kPieceElements + 77);
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * NormalAt(7, i);
    ExpectSame(values);
  }
}

TEST(OracleCodecs, AnyBits) {
  Rng random(8);
  std::vector<float> values(20000);
  for (float& x : values) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
  ExpectSame(values);
  // Blocks without infinities and NaN.
  for (float& x : values) x = std::isfinite(x) ? x : 0.0f;
  ExpectSame(values);
}

TEST(OracleCodecs, EdgesAndTies) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               65504.0f,
                               65519.9f,
                               65520.0f,
                               1e6f,
                               -1e6f,
                               0x1p-24f,
                               0x1p-25f,
                               0x1.8p-24f,
                               0x1p-149f,
                               std::numeric_limits<float>::max(),
                               -std::numeric_limits<float>::max(),
                               127.0f,
                               0.5f,
                               1.5f,
                               2.5f};
  for (int exponent = -20; exponent < 20; ++exponent) {
    for (const float m : {1.0f, 1.25f, 1.5f, 1.75f, 1.0f + 0x1p-11f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-8f})
      values.push_back(std::ldexp(m, exponent) * (exponent % 2 == 0 ? 1.0f : -1.0f));
  }
  for (const float x : std::vector<float>(values)) {
    ExpectSame(std::vector<float>(3, x));  // a separate block
    ExpectSame({6.0f, x, 1.0f, -x});
  }
  ExpectSame(values);
  ExpectSame({1.0f, std::numeric_limits<float>::infinity()});
  ExpectSame({1.0f, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()});
}

TEST(OracleCodecs, EveryBitPatternDecodesTheSame) {
  Rng random(9);
  constexpr size_t kElements = 5000;
  for (const CodecKind codec : kCodecKinds) {
    std::vector<std::byte> bytes(EncodedSize(codec, kElements));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    ExpectSameDecoded(codec, bytes, kElements);
  }
}

TEST(OracleCodecs, GoldenBytesOfTheDocument) {
  const auto encode = [](CodecKind codec, const std::vector<float>& values) {
    std::vector<std::byte> out(EncodedBytes(codec, values.size()));
    EncodePiece(codec, values, 0, out);
    std::string text;
    for (const std::byte b : out)
      text += "0123456789abcdef"[static_cast<int>(b) >> 4], text += "0123456789abcdef"[static_cast<int>(b) & 15];
    return text;
  };
  EXPECT_EQ(encode(CodecKind::kFp16, {1, -2.5f, 0x1p-24f, 1e6f}), "003c00c10100ff7b");
  EXPECT_EQ(encode(CodecKind::kBf16, {1, -2.5f, 3.14159274f}), "803f20c04940");
  EXPECT_EQ(encode(CodecKind::kInt8, {127, -1, 2.5f, 3.5f}), "803f7fff0204");
  EXPECT_EQ(encode(CodecKind::kMxfp4, {6, -1, 0.3f, 0, 2.5f}), "7fa70104");
  EXPECT_EQ(encode(CodecKind::kE3m0, {1, -0.5f, 0.01f, 0, 0.3f}), "7fe70105");
}

}  // namespace
}  // namespace atl::oracle
