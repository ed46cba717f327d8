// SPDX-License-Identifier: Apache-2.0
#include "worker/train/trainer.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/train/scalar_adamw.h"
#include "tests/unit/worker/train/tiny_job.h"

namespace atl {
namespace {

struct Fixture {
  explicit Fixture(const JobSpec& job, uint64_t available_bytes = uint64_t{8} << 30)
      : spec(job), layout(MakeModelLayout(job.model, FragmentPattern::kStrided, 1)) {
    TrainerOptions options;
    options.available_bytes = available_bytes;
    auto made = Trainer::Create(spec, layout, options, clock);
    EXPECT_TRUE(made.ok()) << made.status();
    trainer = *std::move(made);
    InitialParameters(layout, 7, 0, trainer->parameters().host());
  }
  std::vector<float> Parameters() const {
    const auto p = trainer->parameters().host();
    return {p.begin(), p.end()};
  }
  const SystemClock clock;
  const JobSpec spec;
  const ModelLayout layout;
  std::unique_ptr<Trainer> trainer;
};

std::vector<int32_t> Tokens(uint32_t sequences, uint32_t length, uint64_t key = 5) {
  Rng rng(key);
  std::vector<int32_t> out(size_t{sequences} * length);
  for (int32_t& t : out) t = static_cast<int32_t>(rng.Below(256));
  return out;
}

TEST(Trainer, AdamWEqualsTheScalarFormulaAndSparesNormsFromDecay) {
  JobSpec job = TinyJob();
  job.inner.weight_decay = 0.3;
  job.inner.gradient_clip = 0;
  Fixture f(job);
  std::vector<float> before = f.Parameters();
  std::vector<double> expected(before.begin(), before.end());
  std::vector<ScalarAdamW> reference(before.size());
  for (int step = 0; step < 5; ++step) {
    const double lr = 1e-3 * (step + 1);
    const auto report = f.trainer->Step({Tokens(4, 33, 100 + static_cast<uint64_t>(step)), 4}, lr);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_TRUE(report->applied);
    const auto g = f.trainer->gradients().host();
    for (const TensorInfo& t : f.layout.tensors) {
      for (uint64_t i = t.offset; i < t.offset + t.elements; ++i) {
        expected[i] = reference[i].Update(expected[i], g[i], lr, t.decay ? 0.3 : 0.0, job.inner);
      }
    }
  }
  const auto p = f.trainer->parameters().host();
  for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], expected[i], 2e-6) << i;
  EXPECT_EQ(f.trainer->optimizer_steps(), 5u);
}

TEST(Trainer, SgdIsOneSubtraction) {
  JobSpec job = TinyJob();
  job.inner.kind = InnerOptimizerSpec::Kind::kSgd;
  job.inner.weight_decay = 0;
  job.inner.gradient_clip = 0;
  Fixture f(job);
  const std::vector<float> before = f.Parameters();
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33), 4}, 0.5)->applied);
  const auto p = f.trainer->parameters().host(), g = f.trainer->gradients().host();
  for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], before[i] - 0.5f * g[i], 1e-7) << i;
  EXPECT_EQ(f.trainer->first_moments(), nullptr);
}

TEST(Trainer, ClipsTheGlobalNorm) {
  JobSpec job = TinyJob();
  job.inner.kind = InnerOptimizerSpec::Kind::kSgd;
  job.inner.weight_decay = 0;
  job.inner.gradient_clip = 0.01;
  Fixture f(job);
  const std::vector<float> before = f.Parameters();
  const auto report = f.trainer->Step({Tokens(4, 33), 4}, 1.0);
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->grad_norm, 0.02);  // of the unclipped gradient
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double d = static_cast<double>(f.trainer->parameters().host()[i]) - before[i];
    moved += d * d;
  }
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(Trainer, TheNormIsThatOfTheWholeGradient) {
  JobSpec job = TinyJob();
  job.inner.gradient_clip = 0;
  Fixture f(job);
  const auto report = f.trainer->Step({Tokens(4, 33), 4}, 1e-3);
  ASSERT_TRUE(report.ok());
  double square = 0;
  for (const float g : f.trainer->gradients().host()) square += static_cast<double>(g) * g;
  EXPECT_NEAR(report->grad_norm / std::sqrt(square), 1.0, 1e-6);
}

TEST(Trainer, AccumulationChangesTheGradientByRoundingOnly) {
  std::vector<float> whole;
  for (const uint32_t micro : {8u, 4u, 3u, 1u}) {
    JobSpec job = TinyJob();
    job.batch.sequences_per_step = 8;
    job.batch.micro_batch = micro;
    job.inner.gradient_clip = 0;
    Fixture f(job);
    const auto report = f.trainer->Step({Tokens(8, 33), 8}, 1e-3);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->micro_batch, micro);
    EXPECT_EQ(report->tokens, 8u * 32);
    const auto g = f.trainer->gradients().host();
    if (whole.empty()) whole.assign(g.begin(), g.end());
    // Sums of 8 terms in another order: a few units in the last place of the largest partial sum.
    for (size_t i = 0; i < g.size(); ++i)
      ASSERT_NEAR(g[i], whole[i], 1e-7 + 2e-5 * std::abs(whole[i])) << micro << " " << i;
  }
}

TEST(Trainer, SameInputsGiveTheSameBits) {
  std::vector<float> first;
  for (int round = 0; round < 2; ++round) {
    Fixture f(TinyJob());
    for (uint64_t step = 0; step < 4; ++step) ASSERT_TRUE(f.trainer->Step({Tokens(4, 33, step), 4}, 1e-3)->applied);
    if (round == 0) first = f.Parameters();
    EXPECT_EQ(std::memcmp(first.data(), f.trainer->parameters().host().data(), first.size() * sizeof(float)), 0);
  }
}

class NonFinite : public testing::TestWithParam<float> {};

TEST_P(NonFinite, LeavesParametersAndMomentsAsTheyWere) {
  Fixture f(TinyJob());
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33), 4}, 1e-3)->applied);
  const float good = f.trainer->parameters().host()[40];
  f.trainer->parameters().host()[40] = GetParam();
  const auto parameters = f.Parameters();
  const auto m = f.trainer->first_moments()->host(), v = f.trainer->second_moments()->host();
  const std::vector<float> first(m.begin(), m.end()), second(v.begin(), v.end());
  std::vector<int32_t> tokens(4 * 33);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 256);  // every embedding is used
  const auto report = f.trainer->Step({tokens, 4}, 1e-3);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->applied);
  EXPECT_EQ(std::memcmp(parameters.data(), f.trainer->parameters().host().data(), parameters.size() * 4), 0);
  EXPECT_EQ(std::memcmp(first.data(), m.data(), m.size_bytes()), 0);
  EXPECT_EQ(std::memcmp(second.data(), v.data(), v.size_bytes()), 0);
  EXPECT_EQ(f.trainer->optimizer_steps(), 1u);
  f.trainer->parameters().host()[40] = good;  // the next step is a good one: nothing stuck in the gradients
  EXPECT_TRUE(f.trainer->Step({tokens, 4}, 1e-3)->applied);
}

INSTANTIATE_TEST_SUITE_P(All, NonFinite,
                         testing::Values(std::numeric_limits<float>::quiet_NaN(),
                                         std::numeric_limits<float>::infinity()));

TEST(Trainer, JoinerResetsItsMoments) {
  Fixture f(TinyJob()), g(TinyJob());
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33, 1), 4}, 1e-3)->applied);
  ASSERT_TRUE(f.trainer->ResetOptimizer().ok());
  ASSERT_TRUE(g.trainer->parameters().Write(0, f.Parameters()).ok());
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33, 2), 4}, 1e-3)->applied);
  ASSERT_TRUE(g.trainer->Step({Tokens(4, 33, 2), 4}, 1e-3)->applied);
  EXPECT_EQ(f.Parameters(), g.Parameters());
}

TEST(Trainer, SavedMomentsGoOnWhereTheyWere) {
  Fixture f(TinyJob()), g(TinyJob());
  for (uint64_t step = 0; step < 3; ++step) ASSERT_TRUE(f.trainer->Step({Tokens(4, 33, step), 4}, 1e-3)->applied);
  ASSERT_TRUE(g.trainer->parameters().Write(0, f.Parameters()).ok());
  ASSERT_TRUE(g.trainer->first_moments()->Write(0, f.trainer->first_moments()->host()).ok());
  ASSERT_TRUE(g.trainer->second_moments()->Write(0, f.trainer->second_moments()->host()).ok());
  g.trainer->set_optimizer_steps(f.trainer->optimizer_steps());
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33, 9), 4}, 1e-3)->applied);
  ASSERT_TRUE(g.trainer->Step({Tokens(4, 33, 9), 4}, 1e-3)->applied);
  EXPECT_EQ(f.Parameters(), g.Parameters());
}

// Real text if it is available, otherwise text with a similar structure.
std::string SomeText() {
  const char* root = std::getenv("ATOLL_TEST_DATA");
  std::ifstream in(std::string(root == nullptr ? "../shared/data" : root) + "/corpus/tinyshakespeare.txt");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  while (text.size() < 100'000) text += "the quick brown fox jumps over the lazy dog, and back again; ";
  return text;
}

class LearnsText : public testing::TestWithParam<Precision> {};

TEST_P(LearnsText, LossFallsWithinEightySteps) {
  JobSpec job = TinyJob();
  job.model.precision = GetParam();
  job.batch.sequences_per_step = 8;
  Fixture f(job);
  const std::string text = SomeText();
  Rng rng(3);
  double first = 0, last = 0;
  for (int step = 0; step < 80; ++step) {
    std::vector<int32_t> tokens;
    for (int s = 0; s < 8; ++s) {
      const size_t at = rng.Below(90'000);
      for (size_t i = 0; i < 33; ++i) tokens.push_back(static_cast<uint8_t>(text[at + i]));
    }
    const auto report = f.trainer->Step({tokens, 8}, 5e-3);
    ASSERT_TRUE(report.ok()) << report.status();
    if (step == 0) first = report->loss;
    last = report->loss;
  }
  EXPECT_NEAR(first, std::log(256.0), 0.1);
  EXPECT_LT(last, 3.3);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LearnsText, testing::Values(Precision::kFp32, Precision::kBf16));

TEST(Evaluator, ReadsOtherParametersInPlace) {
  Fixture f(TinyJob());
  std::vector<float> outer = f.Parameters();
  ASSERT_TRUE(f.trainer->Step({Tokens(4, 33), 4}, 1e-2)->applied);
  const auto evaluator = Evaluator::Create(f.spec.model, f.layout, {}, {}, outer);
  ASSERT_TRUE(evaluator.ok());
  const auto at_start = (*evaluator)->Evaluate({Tokens(4, 33), 4});
  ASSERT_TRUE(at_start.ok());
  EXPECT_NEAR(at_start->nll / static_cast<double>(at_start->targets), std::log(256.0), 0.1);
  ASSERT_TRUE(f.trainer->parameters().Read(0, outer).ok());
  const auto trained = (*evaluator)->Evaluate({Tokens(4, 33), 4});
  ASSERT_TRUE(trained.ok());
  EXPECT_LT(trained->nll, at_start->nll);
}

TEST(Trainer, RefusesAModelThatDoesNotFit) {
  const JobSpec job = TinyJob();
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = 1 << 19;
  const auto made = Trainer::Create(job, layout, options, clock);
  ASSERT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
  EXPECT_NE(made.status().message().find("the model does not fit"), std::string::npos);
  EXPECT_NE(made.status().message().find("gradients"), std::string::npos);
}

TEST(Trainer, RefusesABatchThatIsNone) {
  Fixture f(TinyJob());
  EXPECT_TRUE(absl::IsInvalidArgument(f.trainer->Step({Tokens(1, 33), 2}, 1e-3).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(f.trainer->Step({{}, 0}, 1e-3).status()));
  std::vector<int32_t> tokens = Tokens(4, 33);
  tokens[9] = 256;
  const auto before = f.Parameters();
  EXPECT_TRUE(absl::IsInvalidArgument(f.trainer->Step({tokens, 4}, 1e-3).status()));
  EXPECT_EQ(before, f.Parameters());
}

}  // namespace
}  // namespace atl
