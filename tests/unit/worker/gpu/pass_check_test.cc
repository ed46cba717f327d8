// SPDX-License-Identifier: Apache-2.0
// The check of pass kernels before training uses them, and training with them.
#include "worker/model/pass_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/host_pass_kernels.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

using testing::HasSubstr;

TEST(PassCheck, TheKernelsAgreeWithLibTorch) {
  HostPassKernels kernels;
  const absl::Status status = CheckPassKernels(kernels, TinyJob().model, {});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(kernels.calls(), 40u);
}

// Kernels of which one is wrong.
class Spoiled final : public PassKernels {
 public:
  absl::Status Judge(const atoll_gpu_judging& judging) override { return judge(judging); }
  absl::Status Gate(const atoll_gpu_gating& gating) override { return gate(gating); }
  absl::Status GateBack(const atoll_gpu_gating& gating) override { return gate_back(gating); }
  absl::Status Turn(const atoll_gpu_turning& turning) override { return turn(turning); }

  HostPassKernels host;
  std::function<absl::Status(atoll_gpu_judging)> judge = [this](const auto& j) { return host.Judge(j); };
  std::function<absl::Status(atoll_gpu_gating)> gate = [this](const auto& g) { return host.Gate(g); };
  std::function<absl::Status(atoll_gpu_gating)> gate_back = [this](const auto& g) { return host.GateBack(g); };
  std::function<absl::Status(atoll_gpu_turning)> turn = [this](const auto& t) { return host.Turn(t); };
};

void ExpectRefused(Spoiled& kernels, const std::string& over) {
  const absl::Status status = CheckPassKernels(kernels, TinyJob().model, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(over));
}

TEST(PassCheck, DifferentResultIsRefused) {
  Spoiled scaled, deaf, idle, one_way, still, nan;
  scaled.judge = [&](atoll_gpu_judging j) { return j.scale *= 1.0001f, scaled.host.Judge(j); };
  ExpectRefused(scaled, "the gradient of scores");
  deaf.judge = [&](atoll_gpu_judging j) { return j.z_loss = 0, deaf.host.Judge(j); };
  ExpectRefused(deaf, "the gradient of scores");
  idle.gate_back = [](const atoll_gpu_gating& g) {
    if (g.type == ATOLL_GPU_TYPE_FP32) {
      std::fill_n(static_cast<float*>(g.out), g.rows * 2 * g.width, 0.0f);
    }
    return absl::OkStatus();
  };
  ExpectRefused(idle, "SwiGLU");
  one_way.turn = [&](atoll_gpu_turning t) { return t.back = 0, one_way.host.Turn(t); };
  ExpectRefused(one_way, "the rotary embedding");
  still.turn = [&](atoll_gpu_turning t) { return t.angle_rows = t.length, still.host.Turn(t); };
  ExpectRefused(still, "the rotary embedding");
  nan.judge = [&](const atoll_gpu_judging& j) {
    const absl::Status status = nan.host.Judge(j);
    j.losses[0] = std::nanf("");
    return status;
  };
  ExpectRefused(nan, "the loss");
}

// A fault only at the sizes of the job's model.
TEST(PassCheck, TheJobsOwnSizesAreAmongThoseCompared) {
  const ModelSpec model = TinyJob().model;
  Spoiled scores, gates, heads;
  scores.judge = [&](atoll_gpu_judging j) {
    if (j.vocab == model.vocab_size) j.scale *= 1.01f;
    return scores.host.Judge(j);
  };
  ExpectRefused(scores, "the gradient of scores");
  gates.gate_back = [&](const atoll_gpu_gating& g) {
    return g.width == model.intermediate_size ? absl::InternalError("too wide") : gates.host.GateBack(g);
  };
  EXPECT_THAT(std::string(CheckPassKernels(gates, model, {}).message()), HasSubstr("too wide"));
  heads.turn = [&](atoll_gpu_turning t) {
    if (t.head_dim == model.head_dim && t.heads == model.kv_heads) t.back = 0;
    return heads.host.Turn(t);
  };
  ExpectRefused(heads, "the rotary embedding");
}

// A fault in one type only, smaller than its rounding.
TEST(PassCheck, DifferentBf16ResultIsRefused) {
  Spoiled scaled, cut;
  scaled.judge = [&](atoll_gpu_judging j) {
    if (j.type == ATOLL_GPU_TYPE_BF16) j.scale *= 1.004f;
    return scaled.host.Judge(j);
  };
  ExpectRefused(scaled, "the gradient of scores");
  cut.gate = [&](const atoll_gpu_gating& g) {  // truncates instead of rounding
    const absl::Status status = cut.host.Gate(g);
    auto* const words = static_cast<uint16_t*>(g.out);
    for (size_t i = 0; g.type == ATOLL_GPU_TYPE_BF16 && i < g.rows * g.width; i += 2) {
      words[i] = static_cast<uint16_t>(words[i] - 1);
    }
    return status;
  };
  ExpectRefused(cut, "SwiGLU");
}

TEST(PassCheck, FailureIsReported) {
  Spoiled kernels;
  kernels.gate = [](const atoll_gpu_gating&) { return absl::InternalError("SwiGLU failed on the GPU: no image"); };
  const absl::Status status = CheckPassKernels(kernels, TinyJob().model, {});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("SwiGLU failed on the GPU: no image"));
}

// Losses of a few steps of a small job, in passes as on a GPU.
struct Trained {
  absl::Status refused;
  bool uses = false;
  std::vector<double> losses;
};
Trained Train(PassKernels* kernels, Precision precision) {
  JobSpec job = TinyJob();
  job.model.vocab_size = 64;
  job.model.intermediate_size = 40;
  job.model.kv_heads = 2;
  job.model.head_dim = 16;
  job.model.precision = precision;
  job.model.z_loss = 1e-4;
  job.data.sequence_length = 12;
  job.batch.sequences_per_step = 3;
  job.batch.micro_batch = 2;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.pass_kernels = kernels;
  options.bf16_products = options.as_on_gpu = true;
  const auto trainer = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (!trainer.ok()) return {};
  InitialParameters(layout, 3, 0, (*trainer)->parameters().host());
  std::vector<int32_t> tokens(size_t{3} * 13);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i * 7 % 64);
  Trained out{(*trainer)->pass_kernels_refused(), (*trainer)->pass_kernels() != nullptr, {}};
  for (int step = 0; step < 4; ++step) {
    const auto report = (*trainer)->Step({.tokens = tokens, .sequences = 3}, 1e-2);
    EXPECT_TRUE(report.ok() && report->applied) << report.status();
    out.losses.push_back(report.ok() ? report->loss : 0);
  }
  return out;
}

TEST(PassKernels, TrainAsLibTorchDoes) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    HostPassKernels kernels;
    const Trained ours = Train(&kernels, precision), wanted = Train(nullptr, precision);
    EXPECT_TRUE(ours.refused.ok() && ours.uses) << ours.refused;
    EXPECT_FALSE(wanted.uses);
    ASSERT_EQ(ours.losses.size(), wanted.losses.size());
    const double slack = precision == Precision::kFp32 ? 1e-5 : 1e-2;
    for (size_t step = 0; step < wanted.losses.size(); ++step) {
      EXPECT_NEAR(ours.losses[step], wanted.losses[step], slack * wanted.losses[step]) << "step " << step;
    }
    EXPECT_LT(ours.losses.back(), 0.9 * ours.losses.front()) << "nothing was learnt";
  }
}

TEST(PassKernels, ThoseThatDifferAreNotUsed) {
  Spoiled kernels;
  kernels.turn = [&](atoll_gpu_turning t) { return t.back = 0, kernels.host.Turn(t); };
  const Trained ours = Train(&kernels, Precision::kFp32), wanted = Train(nullptr, Precision::kFp32);
  EXPECT_FALSE(ours.uses);
  EXPECT_THAT(std::string(ours.refused.message()), HasSubstr("differ by"));
  EXPECT_EQ(ours.losses, wanted.losses);
}

}  // namespace
}  // namespace atl
