// SPDX-License-Identifier: Apache-2.0
// Laws of every codec: sizes, ranges, pieces, non-finite values, saturation, and golden bytes.
#include "common/codec/codec.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Normals(uint64_t seed, size_t n, float scale = 1e-3f) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = NormalAt(seed, i) * scale;
  return out;
}

std::vector<std::byte> Encoded(CodecKind codec, std::span<const float> in) {
  std::vector<std::byte> out(EncodedSize(codec, in.size()));
  Encode(codec, in, out);
  return out;
}

std::vector<float> Decoded(CodecKind codec, Bytes in, size_t n) {
  std::vector<float> out(n);
  Decode(codec, in, out);
  return out;
}

class EveryCodec : public testing::TestWithParam<CodecKind> {};

INSTANTIATE_TEST_SUITE_P(All, EveryCodec, testing::ValuesIn(kCodecKinds),
                         [](const auto& tested) { return std::string(CodecName(tested.param)); });

TEST(EncodedSize, IsExactForWholeAndPartBlocks) {
  EXPECT_EQ(EncodedSize(CodecKind::kFp32, 1000), 4000u);
  EXPECT_EQ(EncodedSize(CodecKind::kFp16, 1000), 2000u);
  EXPECT_EQ(EncodedSize(CodecKind::kBf16, 1000), 2000u);
  EXPECT_EQ(EncodedSize(CodecKind::kInt8, 256), 260u);
  EXPECT_EQ(EncodedSize(CodecKind::kInt8, 257), 263u);
  EXPECT_EQ(EncodedSize(CodecKind::kMxfp4, 64), 34u);
  EXPECT_EQ(EncodedSize(CodecKind::kMxfp4, 67), 37u);  // three elements: a scale and two bytes
  EXPECT_EQ(EncodedSize(CodecKind::kE3m0, 33), 19u);
  EXPECT_EQ(EncodedSize(CodecKind::kMxfp4, uint64_t{1} << 40), (uint64_t{1} << 35) * 17);
  for (const CodecKind codec : kCodecKinds) EXPECT_EQ(EncodedSize(codec, 0), 0u);
}

TEST(CheckEncodedSize, NamesBothSizes) {
  EXPECT_TRUE(CheckEncodedSize(CodecKind::kBf16, 10, 20).ok());
  const absl::Status status = CheckEncodedSize(CodecKind::kBf16, 10, 21);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("21 encoded bytes given, but 10 elements of bf16 take 20"),
            std::string::npos);
}

TEST_P(EveryCodec, PiecesGiveTheSameBytesAsTheWhole) {
  const std::vector<float> in = Normals(1, 2 * kCodecBlock + 77);
  const std::vector<std::byte> whole = Encoded(GetParam(), in);
  for (const size_t piece : {kCodecPiece, kCodecBlock}) {
    std::vector<std::byte> pieces(whole.size());
    for (size_t at = 0; at < in.size(); at += piece) {
      const size_t n = std::min(piece, in.size() - at);
      const ByteRange range = EncodedRange(GetParam(), at, n);
      Encode(GetParam(), std::span(in).subspan(at, n), std::span(pieces).subspan(range.offset, range.bytes));
    }
    EXPECT_EQ(whole, pieces) << piece;
  }
}

TEST_P(EveryCodec, RangesDecodeLikeTheWhole) {
  const std::vector<float> in = Normals(2, 3 * kCodecBlock + 5);
  const std::vector<std::byte> encoded = Encoded(GetParam(), in);
  const std::vector<float> whole = Decoded(GetParam(), encoded, in.size());
  for (const auto& [begin, n] : {std::pair<size_t, size_t>{0, kCodecBlock},
                                 {kCodecBlock, 2 * kCodecBlock},
                                 {2 * kCodecBlock, kCodecBlock + 5},
                                 {3 * kCodecBlock, 5}}) {
    std::vector<float> part(n);
    DecodeRange(GetParam(), encoded, begin, part);
    EXPECT_EQ(std::memcmp(part.data(), &whole[begin], n * 4), 0) << begin;
  }
}

TEST_P(EveryCodec, DecodeAddRoundsTheDecodedValueThenTheSum) {
  const std::vector<float> in = Normals(3, kCodecBlock + 100);
  std::vector<float> target = Normals(4, in.size(), 1.0f);
  const std::vector<float> before = target;
  const std::vector<std::byte> encoded = Encoded(GetParam(), in);
  const std::vector<float> decoded = Decoded(GetParam(), encoded, in.size());
  DecodeAdd(GetParam(), encoded, target);
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(target[i], before[i] + decoded[i]) << i;
}

TEST_P(EveryCodec, EncodingDecodedValuesChangesNothing) {
  const std::vector<float> in = Normals(5, 999);
  const std::vector<float> once = Decoded(GetParam(), Encoded(GetParam(), in), in.size());
  const std::vector<float> twice = Decoded(GetParam(), Encoded(GetParam(), once), in.size());
  if (GetParam() == CodecKind::kInt8) {
    // The scale is rounded, so a second scale may differ in its last place; codes then move by less
    // than one.
    for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(twice[i], once[i], 1e-4f);
  } else {
    EXPECT_EQ(std::memcmp(once.data(), twice.data(), once.size() * 4), 0);
  }
}

TEST_P(EveryCodec, ZerosStayZeros) {
  const std::vector<float> zeros(130, 0.0f);
  EXPECT_EQ(Decoded(GetParam(), Encoded(GetParam(), zeros), zeros.size()), zeros);
}

TEST_P(EveryCodec, NonFiniteValuesAreFound) {
  for (const float bad : {kInf, -kInf, kNan}) {
    std::vector<float> in = Normals(6, 300);
    in[140] = bad;
    const std::vector<float> out = Decoded(GetParam(), Encoded(GetParam(), in), in.size());
    EXPECT_FALSE(std::isfinite(out[140]));
    EXPECT_TRUE(std::isfinite(out[0]) && std::isfinite(out[299])) << "other blocks are untouched";
    if (std::isnan(bad)) {
      EXPECT_TRUE(std::isnan(out[140]));
    }
  }
}

TEST_P(EveryCodec, FiniteValuesStayFiniteUpToTheLargest) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& in : {std::vector<float>{largest, -largest, 1.0f, smallest},
                                       {smallest, -smallest},
                                       {largest, largest / 3},
                                       {0x1p-126f, 0x1p-149f, -0x1p-130f}}) {
    const std::vector<float> out = Decoded(GetParam(), Encoded(GetParam(), in), in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_TRUE(std::isfinite(out[i])) << in[i];
      EXPECT_TRUE(out[i] == 0 || std::signbit(out[i]) == std::signbit(in[i]));
    }
  }
}

TEST_P(EveryCodec, EveryBitPatternDecodes) {
  std::vector<std::byte> noise(EncodedSize(GetParam(), 5000));
  Rng rng(7);
  for (std::byte& b : noise) b = static_cast<std::byte>(rng());
  const std::vector<float> first = Decoded(GetParam(), noise, 5000);
  EXPECT_EQ(std::memcmp(first.data(), Decoded(GetParam(), noise, 5000).data(), 5000 * 4), 0);
}

// The error of a codec on a sample of normal values. Every figure except the cosine is relative to
// the sample's root mean square.
struct Error {
  double rms = 0;           // of the difference
  double largest = 0;       // largest difference of one value
  double one_less_cos = 0;  // 1 - cosine of the angle between encoded and decoded values
  double gain = 0;          // projection of the decoded on the encoded values: below 1 is shrinkage
  double bias = 0;          // mean of the difference
};

Error ErrorOfNormals(CodecKind codec) {
  const std::vector<float> in = Normals(8, 1 << 16);
  const std::vector<float> out = Decoded(codec, Encoded(codec, in), in.size());
  const double n = static_cast<double>(in.size());
  double error = 0, power = 0, decoded_power = 0, projection = 0, largest = 0, sum = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = static_cast<double>(in[i]), y = static_cast<double>(out[i]);
    error += (y - x) * (y - x);
    power += x * x;
    decoded_power += y * y;
    projection += x * y;
    largest = std::max(largest, std::abs(y - x));
    sum += y - x;
  }
  const double rms = std::sqrt(power / n);
  return {std::sqrt(error / power), largest / rms, 1 - projection / std::sqrt(power * decoded_power),
          projection / power, sum / n / rms};
}

// The codec's row of docs/formats/codecs.md; fp32 has none.
Error PublishedError(const std::string& codec) {
  std::ifstream page(ATOLL_SOURCE_DIR "/docs/formats/codecs.md");
  const std::string begin = "| `" + codec + "` | ";
  for (std::string line; std::getline(page, line);) {
    Error row;
    if (!line.starts_with(begin)) continue;
    const int found = std::sscanf(line.c_str() + begin.size(), "%lf | %lf | %lf | %lf |", &row.rms, &row.largest,
                                  &row.one_less_cos, &row.gain);
    if (found == 4) return row;
  }
  EXPECT_EQ(codec, "fp32") << "the page has no errors of it";
  return {.gain = 1};
}

TEST_P(EveryCodec, ErrorOnNormalValuesIsAsPublished) {
  const Error found = ErrorOfNormals(GetParam()), page = PublishedError(CodecName(GetParam()));
  EXPECT_NEAR(found.rms, page.rms, 0.03 * page.rms);
  EXPECT_NEAR(found.largest, page.largest, 0.03 * page.largest);
  EXPECT_NEAR(found.one_less_cos, page.one_less_cos, 0.03 * page.one_less_cos);
  EXPECT_NEAR(found.gain, page.gain, 5e-4);
  EXPECT_LE(std::abs(found.bias), 3 * found.rms / std::sqrt(1 << 16)) << "no more than the sample's noise";
}

struct Golden {
  CodecKind codec;
  std::vector<float> in;
  std::vector<int> bytes;
};

TEST(GoldenBytes, AreThoseOfTheFormatPage) {
  const std::vector<Golden> golden = {
      {CodecKind::kFp32, {1.0f, -2.5f}, {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0}},
      {CodecKind::kFp16, {1.0f, -2.5f, 0x1p-24f, 1e6f}, {0x00, 0x3c, 0x00, 0xc1, 0x01, 0x00, 0xff, 0x7b}},
      {CodecKind::kBf16, {1.0f, -2.5f, 3.14159274f}, {0x80, 0x3f, 0x20, 0xc0, 0x49, 0x40}},
      {CodecKind::kInt8, {127.0f, -1.0f, 2.5f, 3.5f}, {0x80, 0x3f, 0x7f, 0xff, 0x02, 0x04}},
      {CodecKind::kMxfp4, {6.0f, -1.0f, 0.3f, 0.0f, 2.5f}, {0x7f, 0xa7, 0x01, 0x04}},
      {CodecKind::kE3m0, {1.0f, -0.5f, 0.01f, 0.0f, 0.3f}, {0x7f, 0xe7, 0x01, 0x05}},
  };
  for (const Golden& g : golden) {
    const std::vector<std::byte> bytes = Encoded(g.codec, g.in);
    ASSERT_EQ(bytes.size(), g.bytes.size()) << CodecName(g.codec);
    for (size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(static_cast<int>(bytes[i]), g.bytes[i]) << CodecName(g.codec) << " byte " << i;
    }
  }
}

}  // namespace
}  // namespace atl
