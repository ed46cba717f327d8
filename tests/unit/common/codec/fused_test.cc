// SPDX-License-Identifier: Apache-2.0
// On every instruction set, a fused decode gives the same bits as a decode followed by the kernel
// of vecmath.
#include "common/codec/fused.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace atl {
namespace {

constexpr float kWeight = 0.3f;

std::vector<float> Normals(uint64_t seed, size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = NormalAt(seed, i);
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

void ExpectAsOneByOne(CodecKind codec, const std::vector<float>& values, size_t begin) {
  std::vector<std::byte> q(EncodedSize(codec, values.size()));
  Encode(codec, values, q);
  const size_t n = values.size() - begin;
  std::vector<float> decoded(n), wanted = Normals(3, n), got = wanted;
  DecodeRange(codec, q, begin, decoded);
  vecmath::ScaledAccumulate(kWeight, decoded, wanted);
  DecodeScaledAccumulate(codec, q, begin, kWeight, got);
  EXPECT_TRUE(SameBits(got, wanted)) << "accumulated";
  vecmath::Scale(kWeight, decoded, wanted);
  DecodeScaled(codec, q, begin, kWeight, got);
  EXPECT_TRUE(SameBits(got, wanted)) << "scaled";
  if (n > kCodecBlock) return;
  const vecmath::BlockStats stats = DecodedStatistics(codec, q, begin, n), known = vecmath::BlockStatistics(decoded);
  EXPECT_EQ(stats.sum_squares, known.sum_squares);
  EXPECT_EQ(stats.max_abs, known.max_abs);
  EXPECT_EQ(stats.finite, known.finite);
}

TEST(Fused, EveryInstructionSetGivesWhatDecodingFirstGives) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const CodecKind codec : kCodecKinds) {
      SCOPED_TRACE(std::string(hwy::TargetName(target)) + " " + CodecName(codec));
      for (const size_t n : {size_t{1}, size_t{31}, size_t{128}, size_t{1000}, kCodecBlock}) {
        ExpectAsOneByOne(codec, Normals(1, n), 0);
        ExpectAsOneByOne(codec, Normals(2, kCodecBlock + n), kCodecBlock);
      }
      ExpectAsOneByOne(codec, Normals(2, 3 * kCodecBlock + 77), 0);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Very different magnitudes within a block, zeros, and non-finite values.
TEST(Fused, StatisticsHoldForAwkwardBlocks) {
  std::vector<float> wide = Normals(4, kCodecBlock), zeros(kCodecBlock), broken = wide, tiny = wide;
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = std::ldexp(wide[i], static_cast<int>(i / 128 * 7) - 110);
  for (float& x : tiny) x *= 0x1p-140f;
  broken[kCodecBlock - 1] = std::numeric_limits<float>::infinity();
  for (const CodecKind codec : kCodecKinds) {
    for (const auto& values : {wide, zeros, broken, tiny}) ExpectAsOneByOne(codec, values, 0);
    std::vector<std::byte> noise(EncodedSize(codec, kCodecBlock));
    Rng rng(9);
    for (int round = 0; round < 50; ++round) {
      for (std::byte& b : noise) b = static_cast<std::byte>(rng() & (round % 2 == 0 ? 0xff : 0x6f));
      std::vector<float> decoded(kCodecBlock);
      Decode(codec, noise, decoded);
      const vecmath::BlockStats stats = DecodedStatistics(codec, noise, 0, kCodecBlock);
      const vecmath::BlockStats known = vecmath::BlockStatistics(decoded);
      EXPECT_EQ(stats.sum_squares, known.sum_squares) << CodecName(codec) << " " << round;
      EXPECT_EQ(stats.max_abs, known.max_abs) << CodecName(codec) << " " << round;
      EXPECT_EQ(stats.finite, known.finite) << CodecName(codec) << " " << round;
    }
  }
}

TEST(Fused, AWeightedSumIsThatOfOneInputAfterTheOther) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const CodecKind codec : kCodecKinds) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{70}}) {
        const size_t n = kCodecBlock + 96, tail = 77;
        std::vector<std::vector<std::byte>> encoded;
        std::vector<WeightedEncoding> inputs;
        for (size_t i = 0; i < count; ++i) {
          std::vector<float> x = Normals(10 + i, n + tail);
          x[i] = -0.0f;
          if (i == 2) std::fill_n(x.begin() + 64, 32, std::numeric_limits<float>::quiet_NaN());
          encoded.emplace_back(EncodedSize(codec, x.size()));
          Encode(codec, x, encoded.back());
        }
        for (size_t i = 0; i < count; ++i) inputs.push_back({codec, encoded[i], 0.1f * static_cast<float>(i + 1)});
        for (const auto& [begin, size] : {std::pair{size_t{0}, kCodecBlock}, std::pair{kCodecBlock, 96 + tail}}) {
          SCOPED_TRACE(std::string(hwy::TargetName(target)) + " " + CodecName(codec) + " " + std::to_string(count));
          std::vector<float> sum(size, 5.0f), wanted(size), x(size);
          DecodeWeightedSum(inputs, begin, sum);
          for (size_t i = 0; i < count; ++i) {
            DecodeRange(codec, encoded[i], begin, x);
            i == 0 ? vecmath::Scale(inputs[i].weight, x, wanted)
                   : vecmath::ScaledAccumulate(inputs[i].weight, x, wanted);
          }
          EXPECT_TRUE(SameBits(sum, wanted));
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Every scale of a four-bit block, with weights of every size.
TEST(Fused, AWeightedSumHoldsForEveryScaleAndWeight) {
  constexpr size_t kBlock = 32, kScales = 256, kBlockBytes = 17;
  Rng rng(11);
  std::vector<std::byte> q(kScales * kBlockBytes);
  for (std::byte& b : q) b = static_cast<std::byte>(rng());
  for (size_t scale = 0; scale < kScales; ++scale) q[scale * kBlockBytes] = static_cast<std::byte>(scale);
  const float weights[] = {0.1f,           -0.3f,   0.0f, 0x1p-60f,  0x1.000002p-60f, 0x1p60f,
                           0x1.fffffep59f, 0x1p90f, 1.0f, 0x1p-100f, 0x1p-149f};
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const CodecKind codec : {CodecKind::kMxfp4, CodecKind::kE3m0}) {
      std::vector<float> x(kScales * kBlock), wanted(x.size()), sum(x.size());
      Decode(codec, q, x);
      for (const float weight : weights) {
        SCOPED_TRACE(std::string(hwy::TargetName(target)) + " " + CodecName(codec) + " " + std::to_string(weight));
        std::vector<WeightedEncoding> inputs{{codec, q, weight}};
        inputs.resize(19, {codec, q, 0.7f});  // nearly three times the number that is added up at once
        vecmath::Scale(weight, x, wanted);
        for (size_t i = 1; i < inputs.size(); ++i) vecmath::ScaledAccumulate(0.7f, x, wanted);
        DecodeWeightedSum(inputs, 0, sum);
        EXPECT_TRUE(SameBits(sum, wanted));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Fused, SettlingLeavesTheLossAndAddsTheRest) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const CodecKind codec : kCodecKinds) {
      for (const size_t n : {size_t{1}, size_t{100}, size_t{1000}, kCodecBlock}) {
        SCOPED_TRACE(std::string(hwy::TargetName(target)) + " " + CodecName(codec) + " " + std::to_string(n));
        const std::vector<float> h = Normals(5, n);
        std::vector<std::byte> q(EncodedSize(codec, n));
        Encode(codec, h, q);
        std::vector<float> decoded(n), lost(n), wanted_lost(n), sum = Normals(6, n), wanted_sum = sum;
        Decode(codec, q, decoded);
        vecmath::Subtract(h, decoded, wanted_lost);
        vecmath::Add(decoded, wanted_sum);
        const Settled settled = DecodeSettle(codec, q, h, lost, sum);
        EXPECT_TRUE(SameBits(lost, wanted_lost) && SameBits(sum, wanted_sum));
        EXPECT_EQ(settled.lost_max, vecmath::MaxAbs(lost));
        EXPECT_EQ(settled.public_max, vecmath::MaxAbs(sum));
        alignas(64) static float aligned[kCodecBlock];  // aligned like error memories
        const std::span<float> past = std::span(aligned).first(n);
        std::vector<float> same = h;
        EXPECT_EQ(DecodeLost(codec, q, h, past), vecmath::BlockSquares(wanted_lost));
        EXPECT_EQ(DecodeLost(codec, q, same, same), vecmath::BlockSquares(wanted_lost));
        EXPECT_TRUE(SameBits({past.begin(), past.end()}, wanted_lost) && SameBits(same, wanted_lost));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace atl
