// SPDX-License-Identifier: Apache-2.0
// An optimizer with a device's kernels, which run on the host here: training equals LibTorch's
// AdamW, and wrong kernels are detected before they change a parameter.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/train/host_kernels.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/cpu_step_kernels.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

using testing::HasSubstr;

struct Trained {
  absl::Status refused;
  std::vector<float> parameters;
  std::vector<double> losses, norms;
};

// Three steps of the tiny job, with clipping and decay; bf16 uses bf16 products on any machine.
Trained Train(StepKernels* kernels, Precision precision = Precision::kFp32) {
  JobSpec job = TinyJob();
  job.model.precision = precision;
  job.inner.weight_decay = 0.1;
  job.inner.gradient_clip = 0.5;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.kernels = kernels;
  options.bf16_products = true;
  auto made = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {made.status(), {}, {}, {}};
  Trainer& trainer = **made;
  InitialParameters(layout, 3, 0, trainer.parameters().host());
  Trained out{trainer.kernels_refused(), {}, {}, {}};
  Rng random(11);
  std::vector<int32_t> tokens(size_t{2} * (job.data.sequence_length + 1));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(job.model.vocab_size));
  for (int step = 0; step < 3; ++step) {
    const auto report = trainer.Step({.tokens = tokens, .sequences = 2}, 1e-2);
    EXPECT_TRUE(report.ok() && report->applied) << report.status();
    if (!report.ok()) break;
    out.losses.push_back(report->loss), out.norms.push_back(report->grad_norm);
  }
  if (kernels != nullptr && out.refused.ok()) {
    for (const float g : trainer.gradients().host()) EXPECT_EQ(g, 0) << "the kernels clear the gradients";
  }
  const auto parameters = trainer.parameters().host();
  out.parameters.assign(parameters.begin(), parameters.end());
  return out;
}

void ExpectTrainsAsLibTorch(StepKernels& kernels, Precision precision) {
  const Trained ours = Train(&kernels, precision), wanted = Train(nullptr, precision);
  EXPECT_TRUE(ours.refused.ok()) << ours.refused;
  ASSERT_EQ(ours.losses.size(), wanted.losses.size());
  for (size_t step = 0; step < wanted.losses.size(); ++step) {
    EXPECT_NEAR(ours.losses[step], wanted.losses[step], 1e-5 * wanted.losses[step]) << "step " << step;
    EXPECT_NEAR(ours.norms[step], wanted.norms[step], 1e-4 * wanted.norms[step]) << "step " << step;
  }
  EXPECT_GT(wanted.norms[0], 0.5) << "nothing was clipped";
  ASSERT_EQ(ours.parameters.size(), wanted.parameters.size());
  // A gradient element that is all rounding moves by the learning rate in either direction; such
  // elements are few.
  size_t apart = 0;
  for (size_t i = 0; i < wanted.parameters.size(); ++i) {
    if (std::fabs(ours.parameters[i] - wanted.parameters[i]) > 1e-5f) ++apart;
  }
  EXPECT_LE(apart, wanted.parameters.size() / 1000);
}

constexpr int kComparison = 4;  // updates before training

TEST(KernelOptimizer, TrainsAsLibTorchDoes) {
  HostKernels kernels;
  ExpectTrainsAsLibTorch(kernels, Precision::kFp32);
  EXPECT_GT(kernels.updates, kComparison) << "only the comparison used the kernels";
}

TEST(KernelOptimizer, WritesTheRoundedCopy) {
  HostKernels kernels;
  ExpectTrainsAsLibTorch(kernels, Precision::kBf16);
  EXPECT_GT(kernels.updates, kComparison) << "only the comparison used the kernels";
}

TEST(KernelOptimizer, CpuKernelsTrainLikeLibTorch) {
  CpuStepKernels kernels;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) ExpectTrainsAsLibTorch(kernels, precision);
}

// The scalar arithmetic and the vectors give the same bits, so training with either is the same.
TEST(KernelOptimizer, CpuKernelsEqualTheScalarReference) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    CpuStepKernels vectors;
    HostKernels scalars;
    const Trained ours = Train(&vectors, precision), wanted = Train(&scalars, precision);
    EXPECT_EQ(ours.losses, wanted.losses);
    EXPECT_EQ(ours.norms, wanted.norms);
    EXPECT_EQ(ours.parameters, wanted.parameters);
  }
}

TEST(KernelOptimizer, WrongKernelsAreNotUsed) {
  using enum HostKernels::Mistake;
  const Trained wanted = Train(nullptr);
  EXPECT_TRUE(wanted.refused.ok());
  for (const auto& [mistake, sentence] :
       {std::pair{kNoDecay, "of the parameters, but LibTorch computes"},
        std::pair{kNoClipping, "but LibTorch computes"},
        std::pair{kNoCorrection, "of the parameters, but LibTorch computes"},
        std::pair{kLastElement, "of element 10006 of the parameters"},
        std::pair{kTruncated, "of the rounded parameters, but LibTorch computes"},
        std::pair{kNotRounded, "of element 0 of the rounded parameters"},
        std::pair{kNotCleared, "of element 0 of the cleared gradients, but LibTorch computes 0"},
        std::pair{kSums, "of element 2 of the sums of squares"}, std::pair{kLaunch, "no kernel image is available"},
        std::pair{kSumLaunch, "no kernel image is available"}}) {
    HostKernels kernels(mistake);
    const Trained got = Train(&kernels);
    EXPECT_THAT(std::string(got.refused.message()), HasSubstr(sentence));
    EXPECT_EQ(got.losses, wanted.losses);
    EXPECT_EQ(got.parameters, wanted.parameters);
  }
}

// The loss of a step after the parameters in the first half of the arena were changed.
double LossAfterMerge(bool told) {
  HostKernels kernels;
  JobSpec job = TinyJob();
  job.model.precision = Precision::kBf16;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.kernels = &kernels;
  options.bf16_products = true;
  const auto made = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return 0;
  Trainer& trainer = **made;
  InitialParameters(layout, 3, 0, trainer.parameters().host());
  const std::vector<int32_t> tokens(job.data.sequence_length + 1, 7);
  EXPECT_TRUE(trainer.Step({tokens, 1}, 1e-2).ok());
  const auto half = trainer.parameters().host().first(layout.elements / 2);
  for (float& p : half) p *= 2;
  if (told) trainer.ParametersChanged({0, half.size()});
  const auto report = trainer.Step({tokens, 1}, 1e-2);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? report->loss : 0;
}

TEST(KernelOptimizer, MergedRangesAreRoundedAgainOnRequest) { EXPECT_NE(LossAfterMerge(true), LossAfterMerge(false)); }

}  // namespace
}  // namespace atl
