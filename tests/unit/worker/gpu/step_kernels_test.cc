// SPDX-License-Identifier: Apache-2.0
// The plugin's optimizer on a real GPU: the bits of its arithmetic on the host, at aligned and odd
// addresses.
#include "worker/device/step_kernels.h"

#include <cstring>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/opened_plugin.h"
#include "worker/model/arena.h"

namespace atl {
namespace {

using adamw_cases::State;
using codec_cases::FirstDifference;

constexpr size_t kMostElements = 1'000'003;
constexpr float kBeyond = 12.5f;  // guard value after a range

class StepKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU to run the optimizer on: " << Plugin().reason;
    ASSERT_TRUE(ATOLL_GPU_HAS(Plugin().table, sum_squares));
    ASSERT_EQ(Plugin().table->device_open(0, &context_), 0);
    for (std::unique_ptr<Arena>* arena : {&parameters_, &gradients_, &first_, &second_, &rounded_}) {
      auto made = Arena::Create(kMostElements + 8, {.gpu = true});
      ASSERT_TRUE(made.ok()) << made.status();
      *arena = *std::move(made);
    }
  }
  void TearDown() override {
    if (context_ != nullptr) Plugin().table->device_close(context_);
  }

  static void Put(Arena& arena, size_t shift, std::vector<float> values) {
    values.push_back(kBeyond);
    ASSERT_TRUE(arena.Write(shift, values).ok());
  }
  static void ExpectHolds(const Arena& arena, size_t shift, std::vector<float> wanted, const char* what) {
    wanted.push_back(kBeyond);
    std::vector<float> got(wanted.size());
    ASSERT_TRUE(arena.Read(shift, got).ok());
    const auto got_bits = codec_cases::BitsOfAll(got), wanted_bits = codec_cases::BitsOfAll(wanted);
    EXPECT_TRUE(got_bits == wanted_bits) << what << " of " << wanted.size() - 1 << " elements, shift " << shift
                                         << ", element " << FirstDifference(got_bits, wanted_bits);
  }

  void ExpectSameUpdate(size_t elements, size_t shift, bool clear, bool with_rounded) {
    State state = adamw_cases::RandomState(elements + shift, elements);
    Put(*parameters_, shift, state.parameters), Put(*gradients_, shift, state.gradients);
    Put(*first_, shift, state.first), Put(*second_, shift, state.second);
    const atoll_gpu_adamw factors = FactorsOf({3e-3, 0.1, 0.9, 0.95, 1e-8, 5, 0.37});
    auto* const rounded = reinterpret_cast<uint16_t*>(rounded_->memory().data()) + shift;
    const auto at = [shift](const std::unique_ptr<Arena>& arena) { return arena->memory().data() + shift; };
    ASSERT_EQ(Plugin().table->adamw_step(context_, &factors, at(parameters_), at(gradients_), at(first_), at(second_),
                                         with_rounded ? rounded : nullptr, elements, clear ? 1 : 0, nullptr),
              0);
    adamw_cases::Update(factors, state);
    ExpectHolds(*parameters_, shift, state.parameters, "parameters");
    ExpectHolds(*gradients_, shift, clear ? std::vector<float>(elements, 0.0f) : state.gradients, "gradients");
    ExpectHolds(*first_, shift, state.first, "first moments");
    ExpectHolds(*second_, shift, state.second, "second moments");
    if (with_rounded) ExpectRounded(state.parameters, shift);
  }

  void ExpectRounded(const std::vector<float>& parameters, size_t shift) {
    std::vector<float> raw((parameters.size() + shift + 1) / 2);
    ASSERT_TRUE(rounded_->Read(0, raw).ok());
    std::vector<uint16_t> got(raw.size() * 2);
    std::memcpy(got.data(), raw.data(), raw.size() * sizeof(float));
    for (size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_EQ(got[i + shift], adamw_math::Rounded(parameters[i])) << "rounded element " << i << ", shift " << shift;
    }
  }

  atoll_gpu_context* context_ = nullptr;
  std::unique_ptr<Arena> parameters_, gradients_, first_, second_, rounded_;
};

TEST_F(StepKernels, UpdatesAreThoseOfTheHost) {
  for (size_t size = 1; size <= 40; ++size) ExpectSameUpdate(size, size % 5, size % 2 == 0, size % 3 != 0);
  for (const size_t shift : {0, 1}) ExpectSameUpdate(kMostElements, shift, shift == 0, true);
}

TEST_F(StepKernels, SumsAreThoseOfTheHost) {
  for (const size_t size : {size_t{1}, size_t{255}, size_t{4096}, size_t{4097}, kMostElements}) {
    for (const size_t shift : {0, 1}) {
      const std::vector<float> values = adamw_cases::RandomState(size, size).parameters;
      const std::vector<float> wanted = adamw_cases::Sums(values);
      Put(*parameters_, shift, values);
      Put(*gradients_, 0, std::vector<float>(wanted.size(), 0.0f));
      ASSERT_EQ(Plugin().table->sum_squares(context_, parameters_->memory().data() + shift, size,
                                            gradients_->memory().data(), nullptr),
                0);
      ExpectHolds(*gradients_, 0, wanted, "sums");
    }
  }
}

TEST_F(StepKernels, NothingIsDoneToNothingAndTooMuchIsRefused) {
  const atoll_gpu_adamw factors = FactorsOf({3e-3, 0.1, 0.9, 0.95, 1e-8, 1, 1});
  EXPECT_EQ(Plugin().table->adamw_step(context_, &factors, nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr),
            0);
  EXPECT_EQ(Plugin().table->sum_squares(context_, nullptr, 0, nullptr, nullptr), 0);
  EXPECT_NE(Plugin().table->sum_squares(context_, nullptr, UINT64_MAX, nullptr, nullptr), 0);
  char text[512] = "";
  Plugin().table->last_error(text, sizeof text);
  EXPECT_STREQ(text, "more elements than a norm takes at once");
}

}  // namespace
}  // namespace atl
