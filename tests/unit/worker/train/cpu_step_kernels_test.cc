// SPDX-License-Identifier: Apache-2.0
// The optimizer's CPU kernels in a trainer: they agree with LibTorch's AdamW on every instruction
// set of this machine, give the same bits at any number of threads, and a non-finite step leaves no
// trace.
#include "worker/train/cpu_step_kernels.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/kernel_optimizer.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

TEST(CpuStepKernels, AgreeWithLibTorchsByEveryInstructionSet) {
  CpuStepKernels kernels;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_EQ(CheckKernels(kernels, {}), absl::OkStatus()) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
}

struct Updated {
  adamw_cases::State state;
  std::vector<uint16_t> rounded;
  std::vector<float> sums;
};

// Large enough for eight threads, and not a round size.
Updated UpdateOn(int32_t threads) {
  constexpr size_t kElements = 8 * 16 * 4096 + 4099;
  SetTensorThreads(threads);
  CpuStepKernels kernels;
  Updated out{adamw_cases::RandomState(3, kElements), std::vector<uint16_t>(kElements), std::vector<float>(130)};
  adamw_cases::State& s = out.state;
  EXPECT_TRUE(kernels.SumSquares(s.gradients, out.sums, nullptr).ok());
  const AdamwUpdate update{.learning_rate = 1e-2, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
  EXPECT_TRUE(kernels.Adamw(update, {s.parameters, s.gradients, s.first, s.second, out.rounded}, nullptr).ok());
  return out;
}

TEST(CpuStepKernels, MakeTheSameBitsAtAnyNumberOfThreads) {
  const Updated wanted = UpdateOn(1);
  for (const int32_t threads : {2, 3, 8}) {
    const Updated got = UpdateOn(threads);
    EXPECT_EQ(got.state.parameters, wanted.state.parameters) << threads << " threads";
    EXPECT_EQ(got.state.gradients, wanted.state.gradients) << threads << " threads";
    EXPECT_EQ(got.state.first, wanted.state.first) << threads << " threads";
    EXPECT_EQ(got.state.second, wanted.state.second) << threads << " threads";
    EXPECT_EQ(got.rounded, wanted.rounded) << threads << " threads";
    EXPECT_EQ(got.sums, wanted.sums) << threads << " threads";
  }
  SetTensorThreads(1);
}

struct Fixture {
  explicit Fixture(Precision precision) : layout(MakeModelLayout(job.model, FragmentPattern::kWhole, 1)) {
    job.model.precision = precision;
    job.inner.gradient_clip = 0.5;
    TrainerOptions options;
    options.available_bytes = uint64_t{1} << 30;
    options.kernels = &kernels;
    options.bf16_products = true;
    auto made = Trainer::Create(job, layout, options, clock);
    EXPECT_TRUE(made.ok()) << made.status();
    trainer = *std::move(made);
    EXPECT_TRUE(trainer->kernels_refused().ok()) << trainer->kernels_refused();
    InitialParameters(layout, 3, 0, trainer->parameters().host());
  }
  StepReport Step(int32_t token) {
    const std::vector<int32_t> tokens(2 * (job.data.sequence_length + 1), token);
    const auto report = trainer->Step({tokens, 2}, 1e-2);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : StepReport{};
  }
  static std::vector<float> Copy(Arena& arena) { return {arena.host().begin(), arena.host().end()}; }

  const SystemClock clock;
  JobSpec job = TinyJob();
  const ModelLayout layout;
  CpuStepKernels kernels;
  std::unique_ptr<Trainer> trainer;
};

void ExpectLeavesNoTrace(Precision precision) {
  Fixture hurt(precision), wanted(precision);
  EXPECT_TRUE(hurt.Step(7).applied);
  EXPECT_TRUE(wanted.Step(7).applied);
  // For one step a parameter is NaN.
  float& parameter = hurt.trainer->parameters().host()[40];
  const float kept = parameter;
  parameter = std::numeric_limits<float>::quiet_NaN();
  hurt.trainer->ParametersChanged({40, 1});
  const std::vector<float> first = Fixture::Copy(*hurt.trainer->first_moments());
  const StepReport report = hurt.Step(1);  // uses that row of the embedding
  EXPECT_FALSE(report.applied);
  EXPECT_FALSE(std::isfinite(report.loss));
  parameter = kept;
  hurt.trainer->ParametersChanged({40, 1});
  EXPECT_EQ(hurt.trainer->optimizer_steps(), 1u);
  EXPECT_EQ(Fixture::Copy(*hurt.trainer->first_moments()), first);
  EXPECT_EQ(Fixture::Copy(hurt.trainer->parameters()), Fixture::Copy(wanted.trainer->parameters()));
  // The gradients of the lost step are not in the next.
  const StepReport next = hurt.Step(9), same = wanted.Step(9);
  EXPECT_TRUE(next.applied);
  EXPECT_EQ(next.loss, same.loss);
  EXPECT_EQ(next.grad_norm, same.grad_norm);
  EXPECT_EQ(Fixture::Copy(hurt.trainer->parameters()), Fixture::Copy(wanted.trainer->parameters()));
  EXPECT_EQ(Fixture::Copy(*hurt.trainer->second_moments()), Fixture::Copy(*wanted.trainer->second_moments()));
}

TEST(CpuStepKernels, AStepThatIsNotFiniteLeavesNoTrace) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) ExpectLeavesNoTrace(precision);
}

}  // namespace
}  // namespace atl
