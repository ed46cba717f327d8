// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the CUDA codecs, run lane by lane on the host: the bytes and bits of
// common/codec.
#include "worker/gpu/codec_math.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/codec_cases.h"

namespace atl {
namespace {

using codec_cases::AllScales;
using codec_cases::AllWords;
using codec_cases::FirstDifference;
using codec_cases::kAllCodecs;

using Words = std::vector<uint32_t>;
using ByteVector = std::vector<std::byte>;

uint32_t Largest(const Words& block) {
  uint32_t largest = 0;
  for (const uint32_t bits : block) largest = std::max(largest, codec_math::Magnitude(bits));
  return largest;
}

void Append(ByteVector& out, uint32_t byte) { out.push_back(static_cast<std::byte>(byte)); }
uint32_t At(const ByteVector& bytes, size_t i) { return static_cast<uint32_t>(bytes[i]); }

void AppendWord(ByteVector& out, uint32_t word) {
  Append(out, word & 0xffu);
  Append(out, word >> 8);
}

void EncodeInt8Block(const Words& block, ByteVector& out) {
  const uint32_t scale = codec_math::Int8Scale(Largest(block));
  AppendWord(out, scale);
  for (const uint32_t bits : block) Append(out, codec_math::Int8Code(bits, scale));
}

template <typename Format>
void EncodeFp4Block(const Words& block, ByteVector& out) {
  const uint32_t scale = codec_math::Fp4Scale<Format>(Largest(block));
  Append(out, scale);
  for (size_t lane = 0; lane < block.size(); lane += 2) {
    const uint32_t next = lane + 1 < block.size() ? block[lane + 1] : 0;
    Append(out, codec_math::Fp4Code<Format>(block[lane], scale) | codec_math::Fp4Code<Format>(next, scale) << 4);
  }
}

// Elements of a block.
size_t BlockOf(CodecKind kind) {
  return kind == CodecKind::kInt8 ? codec_math::kInt8Block : kind < CodecKind::kInt8 ? 1 : codec_math::kFp4Block;
}

ByteVector EncodeByLanes(CodecKind kind, std::span<const float> values) {
  ByteVector out;
  const size_t size = BlockOf(kind);
  for (size_t at = 0; at < values.size(); at += size) {
    const Words block = codec_cases::BitsOfAll(values.subspan(at, std::min(size, values.size() - at)));
    switch (kind) {
      case CodecKind::kFp32: AppendWord(out, block[0] & 0xffffu), AppendWord(out, block[0] >> 16); break;
      case CodecKind::kFp16: AppendWord(out, codec_math::HalfFromBits(block[0])); break;
      case CodecKind::kBf16: AppendWord(out, codec_math::Bfloat16FromBits(block[0])); break;
      case CodecKind::kInt8: EncodeInt8Block(block, out); break;
      case CodecKind::kMxfp4: EncodeFp4Block<codec_math::Mxfp4>(block, out); break;
      case CodecKind::kE3m0: EncodeFp4Block<codec_math::E3m0>(block, out); break;
      default: ADD_FAILURE() << "the plugin has no " << CodecName(kind);
    }
  }
  return out;
}

uint32_t WordAt(const ByteVector& in, size_t at) { return At(in, at) | At(in, at + 1) << 8; }

template <typename Format>
uint32_t Fp4ValueAt(const ByteVector& in, size_t i) {
  const size_t block = i / codec_math::kFp4Block * codec_math::kFp4Bytes, lane = i % codec_math::kFp4Block;
  return codec_math::Fp4Value<Format>(At(in, block + 1 + lane / 2) >> (lane % 2 * 4) & 15u, At(in, block));
}

Words DecodeByLanes(CodecKind kind, const ByteVector& in, size_t elements) {
  Words out(elements);
  for (size_t i = 0; i < elements; ++i) {
    const size_t block = i / codec_math::kInt8Block * codec_math::kInt8Bytes;
    switch (kind) {
      case CodecKind::kFp32: out[i] = WordAt(in, i * 4) | WordAt(in, i * 4 + 2) << 16; break;
      case CodecKind::kFp16: out[i] = codec_math::BitsFromHalf(WordAt(in, i * 2)); break;
      case CodecKind::kBf16: out[i] = codec_math::BitsFromBfloat16(WordAt(in, i * 2)); break;
      case CodecKind::kInt8:
        out[i] = codec_math::Int8Value(At(in, block + 2 + i % codec_math::kInt8Block), WordAt(in, block));
        break;
      case CodecKind::kMxfp4: out[i] = Fp4ValueAt<codec_math::Mxfp4>(in, i); break;
      case CodecKind::kE3m0: out[i] = Fp4ValueAt<codec_math::E3m0>(in, i); break;
      default: ADD_FAILURE() << "the plugin has no " << CodecName(kind);
    }
  }
  return out;
}

void ExpectSameDecoded(CodecKind kind, const ByteVector& bytes, size_t elements) {
  const Words wanted = codec_cases::ReferenceBits(kind, bytes, elements), got = DecodeByLanes(kind, bytes, elements);
  const size_t at = FirstDifference(wanted, got);
  EXPECT_TRUE(wanted == got) << CodecName(kind) << ", element " << at << std::hex << ": wanted " << wanted[at]
                             << ", got " << got[at];
}

void ExpectSame(CodecKind kind, std::span<const float> values) {
  const ByteVector wanted = codec_cases::ReferenceBytes(kind, values), got = EncodeByLanes(kind, values);
  ASSERT_EQ(wanted.size(), got.size()) << CodecName(kind) << ", " << values.size() << " elements";
  EXPECT_TRUE(wanted == got) << CodecName(kind) << ", " << values.size() << " elements, byte "
                             << FirstDifference(wanted, got);
  ExpectSameDecoded(kind, wanted, values.size());
}

TEST(CodecMath, EveryWordDecodesAlike) {
  for (const CodecKind kind : {CodecKind::kFp16, CodecKind::kBf16}) ExpectSameDecoded(kind, AllWords(), 65536);
}

TEST(CodecMath, EveryScaleDecodesAlike) {
  for (const CodecKind kind : {CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0}) {
    size_t elements = 0;
    const ByteVector bytes = AllScales(kind, &elements);
    ASSERT_EQ(bytes.size(), EncodedSize(kind, elements));
    ExpectSameDecoded(kind, bytes, elements);
  }
}

TEST(CodecMath, ASweepOfAllExponentsEncodesAlike) {
  const std::vector<float> values = codec_cases::Sweep();
  for (const CodecKind kind : kAllCodecs) ExpectSame(kind, values);
}

// Alone in its block, each value determines the scale.
TEST(CodecMath, EachValueAloneEncodesAlike) {
  for (const float x : codec_cases::Sweep()) {
    for (const CodecKind kind : kAllCodecs) {
      ASSERT_EQ(codec_cases::ReferenceBytes(kind, {&x, 1}), EncodeByLanes(kind, {&x, 1}))
          << CodecName(kind) << ' ' << std::hex << std::bit_cast<uint32_t>(x);
    }
  }
}

TEST(CodecMath, TiesUnderEveryScaleEncodeAlike) {
  const std::vector<float> values = codec_cases::Ties();
  for (const CodecKind kind : kAllCodecs) ExpectSame(kind, values);
}

TEST(CodecMath, EverySizeEncodesAlike) {
  for (size_t size = 1; size <= 300; ++size) {
    const std::vector<float> values = codec_cases::Random(size, size);
    for (const CodecKind kind : kAllCodecs) ExpectSame(kind, values);
  }
}

TEST(CodecMath, RandomBlocksAndBytesAreAlike) {
  const std::vector<float> values = codec_cases::Random(7, 200'003);
  for (const CodecKind kind : kAllCodecs) {
    ExpectSame(kind, values);
    ExpectSameDecoded(kind, codec_cases::RandomBytes(kind, 9, 200'003), 200'003);
  }
}

// Proves that the comparison can fail: one changed bit of a value is noticed.
TEST(CodecMath, TheComparisonSeesAChange) {
  const std::vector<float> values = codec_cases::Random(7, 4096);
  std::vector<float> changed = values;
  changed[1000] = -changed[1000] + 1.0f;
  EXPECT_NE(codec_cases::ReferenceBytes(CodecKind::kBf16, values), EncodeByLanes(CodecKind::kBf16, changed));
}

}  // namespace
}  // namespace atl
