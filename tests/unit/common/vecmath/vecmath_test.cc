// SPDX-License-Identifier: Apache-2.0
// Every instruction set of this CPU against the scalar reference, bit for bit; and the reference
// against formulas.
#include "common/vecmath/vecmath.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace atl::vecmath {
namespace {

constexpr size_t kLengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 4095, 4096};

// Wide exponents, so that every kind of rounding occurs, subnormals included.
std::vector<float> Values(uint64_t seed, size_t n) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& x : out) {
    const uint32_t exponent = rng.Below(20) == 0 ? 0 : 100 + static_cast<uint32_t>(rng.Below(40));
    x = std::bit_cast<float>((static_cast<uint32_t>(rng()) & 0x807fffffu) | exponent << 23);
  }
  return out;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

// Runs `body` once for each instruction set, naming it on a failure.
template <typename Body>
void OnEveryTarget(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(InstructionSet());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Targets, MoreThanOneIsExercised) {
  std::vector<std::string> names;
  OnEveryTarget([&] { names.push_back(InstructionSet()); });
  ASSERT_GE(names.size(), 2u);
  EXPECT_NE(names.front(), names.back());
}

TEST(Copy, IsToTheBitAndWritesNothingElse) {
  const std::vector<float> values = Values(1, kFarCopy + 100);
  OnEveryTarget([&] {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{4096}, kFarCopy - 1, kFarCopy, kFarCopy + 33}) {
      for (const size_t at : {size_t{16}, size_t{17}, size_t{23}, size_t{31}}) {
        std::vector<float> wanted(n + 64, 7.0f), got = wanted;
        std::copy_n(values.begin() + 3, n, wanted.begin() + static_cast<std::ptrdiff_t>(at));
        Copy(std::span(values).subspan(3, n), std::span(got).subspan(at, n));
        EXPECT_TRUE(SameBits(got, wanted)) << n << " elements at " << at;
      }
    }
  });
}

TEST(Elementwise, EveryTargetGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const size_t n : kLengths) {
      const std::vector<float> x = Values(1, n), y = Values(2, n), z = Values(3, n);
      std::vector<float> got(n), wanted(n);
      Scale(0.3f, x, got), scalar::Scale(0.3f, x, wanted);
      EXPECT_TRUE(SameBits(got, wanted)) << "Scale " << n;
      got = wanted = y;
      ScaledAccumulate(0.7f, x, got), scalar::ScaledAccumulate(0.7f, x, wanted);
      EXPECT_TRUE(SameBits(got, wanted)) << "ScaledAccumulate " << n;
      Add(z, got), scalar::Add(z, wanted);
      EXPECT_TRUE(SameBits(got, wanted)) << "Add " << n;
      Subtract(x, y, got), scalar::Subtract(x, y, wanted);
      EXPECT_TRUE(SameBits(got, wanted)) << "Subtract " << n;
      for (const double mix : {0.0, 0.25, 0.9, 1.0}) {
        Merge(mix, z, got), scalar::Merge(mix, z, wanted);
        EXPECT_TRUE(SameBits(got, wanted)) << "Merge " << mix << " " << n;
      }
    }
  });
}

TEST(Order, TargetsEqualTheReferenceAndAreStable) {
  OnEveryTarget([] {
    for (const size_t n : kLengths) {
      std::vector<float> a = Values(1, n), b = Values(2, n);
      for (size_t i = 0; i < n; i += 3) a[i] = 0.0f, b[i] = -0.0f;  // equal, but with different bits
      std::vector<float> wanted_a = a, wanted_b = b;
      Order(a, b), scalar::Order(wanted_a, wanted_b);
      EXPECT_TRUE(SameBits(a, wanted_a) && SameBits(b, wanted_b)) << n;
      for (size_t i = 0; i < n; ++i) {
        EXPECT_LE(a[i], b[i]);
        EXPECT_TRUE(i % 3 != 0 || (!std::signbit(a[i]) && std::signbit(b[i])));
      }
    }
  });
}

TEST(OuterDirection, EveryTargetGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
      for (const size_t n : kLengths) {
        const OuterCoefficients c{.kind = kind, .learning_rate = 0.7f, .momentum = 0.9f};
        std::vector<float> momentum = Values(4, n), wanted_momentum = momentum;
        std::vector<float> g = Values(5, n), wanted = g;
        OuterDirection(c, momentum, g), scalar::OuterDirection(c, wanted_momentum, wanted);
        EXPECT_TRUE(SameBits(g, wanted) && SameBits(momentum, wanted_momentum)) << n;
      }
    }
  });
}

TEST(OuterStep, EveryTargetGivesTheBitsOfTheReferenceWithAndWithoutAResidual) {
  OnEveryTarget([] {
    for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
      for (const size_t n : kLengths) {
        const OuterCoefficients c{.kind = kind, .learning_rate = 0.7f, .momentum = 0.9f};
        for (const std::vector<float>& residual : {Values(8, n), std::vector<float>()}) {
          std::vector<float> momentum = Values(4, n), wanted_momentum = momentum;
          std::vector<float> g = Values(5, n), wanted = g;
          const OuterSums sums = OuterStep(c, momentum, residual, g);
          const OuterSums wanted_sums = scalar::OuterStep(c, wanted_momentum, residual, wanted);
          EXPECT_TRUE(SameBits(g, wanted) && SameBits(momentum, wanted_momentum)) << n;
          EXPECT_EQ(sums.merged_squares, wanted_sums.merged_squares) << n;
          EXPECT_EQ(sums.step_squares, wanted_sums.step_squares) << n;
          EXPECT_EQ(sums.momentum_max, wanted_sums.momentum_max) << n;
        }
      }
    }
  });
}

TEST(PseudoGradient, TargetsEqualTheReferenceAndFindNonFiniteValues) {
  OnEveryTarget([] {
    for (const size_t n : kLengths) {
      for (const std::vector<float>& residual : {Values(8, n), std::vector<float>()}) {
        std::vector<float> outer = Values(1, n), h(n), wanted(n);
        for (const bool broken : {false, true}) {
          if (broken && n > 0) outer[n / 2] = std::numeric_limits<float>::quiet_NaN();
          const BlockStats got = PseudoGradient(outer, Values(2, n), residual, h);
          const BlockStats known = scalar::PseudoGradient(outer, Values(2, n), residual, wanted);
          EXPECT_TRUE(SameBits(h, wanted)) << n;
          EXPECT_EQ(got.sum_squares, known.sum_squares) << n;
          EXPECT_EQ(got.max_abs, known.max_abs) << n;
          EXPECT_EQ(got.finite, known.finite) << n;
          size_t next = 0;
          const auto take = [&](size_t begin, std::span<const float> piece) {
            EXPECT_EQ(begin, next);
            EXPECT_EQ(piece.size(), std::min(kPiece, n - begin));
            next += piece.size();
            EXPECT_TRUE(SameBits(piece, std::span(wanted).subspan(begin, piece.size()))) << n << " at " << begin;
          };
          const BlockStats pieces = PseudoGradient(outer, Values(2, n), residual, take);
          EXPECT_EQ(next, n);
          EXPECT_EQ(pieces.sum_squares, known.sum_squares) << n;
          EXPECT_EQ(pieces.max_abs, known.max_abs) << n;
          EXPECT_EQ(pieces.finite, known.finite) << n;
        }
      }
    }
  });
}

TEST(Sums, EveryTargetGivesTheBitsOfTheReference) {
  OnEveryTarget([] {
    for (const size_t n : kLengths) {
      const std::vector<float> x = Values(6, n), y = Values(7, n);
      const BlockStats got = BlockStatistics(x), wanted = scalar::BlockStatistics(x);
      EXPECT_EQ(got.sum_squares, wanted.sum_squares) << n;
      EXPECT_EQ(got.max_abs, wanted.max_abs);
      EXPECT_TRUE(got.finite && wanted.finite);
      EXPECT_EQ(BlockSquares(x), wanted.sum_squares) << n;
      EXPECT_EQ(MaxAbs(x), wanted.max_abs) << n;
      EXPECT_EQ(BlockDot(x, y), scalar::BlockDot(x, y)) << n;
    }
  });
}

TEST(Sums, NonFiniteValuesAreFoundAnywhere) {
  OnEveryTarget([] {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      for (size_t at = 0; at < 37; ++at) {
        std::vector<float> x(37, 1.0f);
        x[at] = bad;
        EXPECT_FALSE(BlockStatistics(x).finite) << at;
        EXPECT_FALSE(AllFinite(x));
        EXPECT_FALSE(scalar::BlockStatistics(x).finite);
      }
    }
  });
}

TEST(Sums, AddBlocksInOrder) {
  const std::vector<float> x = Values(8, 3 * kSumBlock + 9), y = Values(9, x.size());
  double wanted = 0;
  for (size_t at = 0; at < x.size(); at += kSumBlock) {
    const size_t n = std::min(kSumBlock, x.size() - at);
    wanted += scalar::BlockDot(std::span(x).subspan(at, n), std::span(y).subspan(at, n));
  }
  EXPECT_EQ(Dot(x, y), wanted);
  EXPECT_EQ(Dot({}, {}), 0);
}

TEST(Sums, AgreeWithKnownValues) {
  const std::vector<float> x = {3, -4, 0, 12};
  EXPECT_EQ(Dot(x, x), 169);
  EXPECT_EQ(MaxAbs(x), 12);
  EXPECT_EQ(Dot(x, std::vector<float>{1, 1, 1, 1}), 11);
}

TEST(ScaledAccumulate, RoundsTheProductBeforeTheSum) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: fused with -1 it would keep 2^-24.
  const float a = 1.0f + 0x1p-12f;
  OnEveryTarget([&] {
    std::vector<float> acc(40, -1.0f);
    ScaledAccumulate(a, std::vector<float>(40, a), acc);
    for (const float value : acc) EXPECT_EQ(value, 0x1p-11f);
  });
}

TEST(Merge, TheEndsAreExact) {
  const std::vector<float> outer = {1, 2, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> local = {5, -0.0f, 7};
  const std::vector<float> before = local;
  Merge(1, outer, local);
  EXPECT_TRUE(SameBits(local, before));
  Merge(0, outer, local);
  EXPECT_TRUE(SameBits(local, outer));
  std::vector<float> half = {4};
  Merge(0.5, std::vector<float>{2}, half);
  EXPECT_EQ(half[0], 3);
}

TEST(Subnormals, AreKept) {
  OnEveryTarget([] {
    std::vector<float> acc(33, 0x1p-140f);
    ScaledAccumulate(0.5f, std::vector<float>(33, 0x1p-139f), acc);
    for (const float value : acc) EXPECT_EQ(value, 0x1p-139f);
  });
}

}  // namespace
}  // namespace atl::vecmath
