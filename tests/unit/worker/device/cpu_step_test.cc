// SPDX-License-Identifier: Apache-2.0
// The optimizer's CPU kernels, on every instruction set of this machine: equal to the bit with the
// scalar arithmetic (which adamw_math_test.cc compares with AdamW in double), and close to AdamW in
// double.
#include "worker/device/cpu_step.h"

#include <bit>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/train/scalar_adamw.h"

namespace atl {
namespace {

using adamw_cases::State;

constexpr float kBeyond = 123.5f;  // guard value before and after a span
constexpr uint16_t kBeyondRounded = 0x1234;
constexpr size_t kAround = 3;
constexpr size_t kBefore[] = {0, 1, 7};  // elements before a span, so that it is not aligned
constexpr size_t kSizes[] = {0, 1, 5, 15, 16, 17, 33, 255, 4096, 4097, 10'007};

const AdamwUpdate kUpdate{.learning_rate = 3e-3,
                          .decay = 0.1,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .epsilon = 1e-8,
                          .steps = 3,
                          .gradient_factor = 0.3};

template <typename Body>
void ForAllTargets(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// `values` at an unaligned address, between guard values that must not change.
template <typename T>
struct Framed {
  Framed(const std::vector<T>& values, size_t before, T around) : all(values.size() + before + kAround, around) {
    std::copy(values.begin(), values.end(), all.begin() + static_cast<ptrdiff_t>(before));
    span = std::span(all).subspan(before, values.size());
  }
  bool FrameStands(T around) const {
    for (size_t i = 0; i < all.size(); ++i) {
      const bool inside = &all[i] >= span.data() && &all[i] < span.data() + span.size();
      if (!inside && all[i] != around) return false;
    }
    return true;
  }
  std::vector<T> all;
  std::span<T> span;
};

void ExpectSameBits(std::span<const float> got, std::span<const float> wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i])) << what << ", element " << i;
  }
}

void ExpectIsTheScalars(size_t size, size_t before, bool rounds, bool clear) {
  const State given = adamw_cases::RandomState(size + before, size);
  State wanted = given;
  const atoll_gpu_adamw factors = FactorsOf(kUpdate);
  adamw_cases::Update(factors, wanted);
  // Each array at its own misalignment.
  Framed<float> parameters(given.parameters, before, kBeyond), gradients(given.gradients, before / 2, kBeyond),
      first(given.first, before * 2, kBeyond), second(given.second, 0, kBeyond);
  Framed<uint16_t> rounded(std::vector<uint16_t>(size), before, kBeyondRounded);
  cpu_step::Adamw(
      factors, clear,
      {parameters.span, gradients.span, first.span, second.span, rounds ? rounded.span : std::span<uint16_t>{}});
  ExpectSameBits(parameters.span, wanted.parameters, "parameters");
  ExpectSameBits(first.span, wanted.first, "first moments");
  ExpectSameBits(second.span, wanted.second, "second moments");
  ExpectSameBits(gradients.span, clear ? std::vector<float>(size) : wanted.gradients, "gradients");
  for (size_t i = 0; i < size; ++i) {
    ASSERT_EQ(rounded.span[i], rounds ? adamw_math::Rounded(wanted.parameters[i]) : 0) << "rounded, element " << i;
  }
  for (const Framed<float>* framed : {&parameters, &gradients, &first, &second}) {
    EXPECT_TRUE(framed->FrameStands(kBeyond)) << "something beyond a span was written";
  }
  EXPECT_TRUE(rounded.FrameStands(kBeyondRounded)) << "something beyond the rounded copy was written";
}

TEST(CpuStep, UpdatesAreThoseOfTheScalarArithmetic) {
  ForAllTargets([] {
    for (const size_t size : kSizes) {
      for (const size_t before : kBefore) {
        SCOPED_TRACE(std::to_string(size) + " elements from " + std::to_string(before));
        ExpectIsTheScalars(size, before, false, false);
        ExpectIsTheScalars(size, before, true, true);
      }
    }
  });
}

TEST(CpuStep, FollowsDoublePrecision) {
  InnerOptimizerSpec spec;
  spec.beta1 = kUpdate.beta1, spec.beta2 = kUpdate.beta2, spec.epsilon = kUpdate.epsilon;
  ForAllTargets([&] {
    constexpr size_t kSize = 37;
    State got = adamw_cases::RandomState(5, kSize);
    got.first.assign(kSize, 0), got.second.assign(kSize, 0);
    std::vector<double> wanted(got.parameters.begin(), got.parameters.end());
    std::vector<ScalarAdamW> moments(kSize);
    for (uint64_t step = 1; step <= 50; ++step) {
      AdamwUpdate update = kUpdate;
      update.steps = step;
      got.gradients = adamw_cases::RandomState(100 + step, kSize).parameters;
      for (size_t i = 0; i < kSize; ++i) {
        wanted[i] = moments[i].Update(wanted[i], static_cast<double>(got.gradients[i]) * update.gradient_factor,
                                      update.learning_rate, update.decay, spec);
      }
      cpu_step::Adamw(FactorsOf(update), true, {got.parameters, got.gradients, got.first, got.second, {}});
    }
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(static_cast<double>(got.parameters[i]), wanted[i], 50 * 1.2e-7) << i;
      EXPECT_NEAR(static_cast<double>(got.first[i]), moments[i].m, 1e-6) << i;
      EXPECT_NEAR(static_cast<double>(got.second[i]), moments[i].v, 1e-5 * moments[i].v) << i;
    }
  });
}

TEST(CpuStep, NanIsRoundedToNan) {
  ForAllTargets([] {
    State state = adamw_cases::RandomState(9, 20);
    state.gradients[3] = std::numeric_limits<float>::infinity();
    state.gradients[17] = std::numeric_limits<float>::quiet_NaN();
    std::vector<uint16_t> rounded(20);
    cpu_step::Adamw(FactorsOf(kUpdate), true, {state.parameters, state.gradients, state.first, state.second, rounded});
    for (size_t i = 0; i < 20; ++i) {
      const bool lost = i == 3 || i == 17;
      EXPECT_EQ(std::isnan(state.parameters[i]), lost) << i;
      EXPECT_EQ(rounded[i] == 0x7fc0u, lost) << i;
    }
  });
}

TEST(CpuStep, SumsAreThoseOfTheScalarArithmetic) {
  ForAllTargets([] {
    for (const size_t size : kSizes) {
      for (const size_t before : kBefore) {
        SCOPED_TRACE(std::to_string(size) + " elements from " + std::to_string(before));
        const Framed<float> values(adamw_cases::RandomState(size, size).gradients, before, kBeyond);
        const std::vector<float> wanted = adamw_cases::Sums(values.span);
        std::vector<float> sums(wanted.size(), -1);
        cpu_step::SumSquares(values.span, sums);
        ExpectSameBits(sums, wanted, "sums");
      }
    }
  });
}

TEST(CpuStep, SumsReportNonFiniteValues) {
  ForAllTargets([] {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
      for (const size_t at : {size_t{0}, size_t{4096}, size_t{8999}}) {
        std::vector<float> values(9000, 0.5f), sums(3);
        values[at] = -bad;
        cpu_step::SumSquares(values, sums);
        for (size_t block = 0; block < sums.size(); ++block) {
          EXPECT_EQ(std::isfinite(sums[block]), block != at / 4096) << bad << " at " << at;
        }
      }
    }
  });
}

TEST(CpuStepDeath, SpansOfDifferentLengthsAreAMistake) {
  std::vector<float> four(4), three(3), one(1), two(2);
  std::vector<uint16_t> rounded(3);
  EXPECT_DEATH(cpu_step::Adamw({}, true, {four, three, four, four, {}}), "differ in length");
  EXPECT_DEATH(cpu_step::Adamw({}, true, {four, four, four, four, rounded}), "differ in length");
  EXPECT_DEATH(cpu_step::SumSquares(four, two), "a sum for each block");
}

}  // namespace
}  // namespace atl
