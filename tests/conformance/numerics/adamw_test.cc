// SPDX-License-Identifier: Apache-2.0
// Streaming DiLoCo (2501.18512, algorithm 2) with AdamW on a small Llama. Compares the real
// trainer, schedule, replicas and aggregate with an independent implementation in double, with
// gradients by finite differences of a network that shares no code with the real one.
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/conformance/numerics/loop.h"
#include "tests/unit/worker/model/reference_llama.h"
#include "tests/unit/worker/train/scalar_adamw.h"
#include "worker/train/cpu_step_kernels.h"
#include "worker/train/trainer.h"

namespace atl::numerics {
namespace {

constexpr size_t kWorkers = 2;
constexpr uint32_t kPeriod = 6, kSequences = 2, kLength = 7;
constexpr uint64_t kSteps = 3 * kPeriod;
constexpr double kInnerRate = 5e-3, kOuterRate = 0.7, kMomentum = 0.9;

JobSpec Job() {
  JobSpec job;
  job.model.vocab_size = 8;
  job.model.hidden_size = 4;
  job.model.intermediate_size = 4;
  job.model.layers = 2;
  job.model.heads = job.model.kv_heads = 1;
  job.model.head_dim = 4;
  job.data.sequence_length = kLength - 1;
  job.batch.sequences_per_step = kSequences;
  job.inner.gradient_clip = 0;
  job.inner.weight_decay = 0.1;
  job.inner.epsilon = 1e-2;
  return job;
}

std::vector<int32_t> Batch(size_t worker, uint64_t step) {
  Rng rng(StreamKey(worker * 1000 + step, "batch"));
  std::vector<int32_t> tokens(size_t{kSequences} * kLength);
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng.Below(8));
  return tokens;
}

// The same run in double, written directly from the paper.
class Reference {
 public:
  Reference(const JobSpec& job, const ModelLayout& layout, std::span<const float> start, uint32_t tau, double alpha)
      : job_(job),
        layout_(layout),
        tau_(tau),
        alpha_(alpha),
        outer_(start.begin(), start.end()),
        momentum_(start.size()),
        local_(kWorkers, outer_),
        adamw_(kWorkers, std::vector<ScalarAdamW>(start.size())) {}

  void Step(uint64_t t) {
    for (size_t m = 0; m < kWorkers; ++m) InnerStep(m, t);
    const uint64_t count = layout_.fragments.size();
    for (uint64_t p = 0; p < count; ++p) {
      const uint64_t offset = ((p + 1) * kPeriod / count + kPeriod - tau_) % kPeriod;
      if (t % kPeriod == offset) sent_.push_back({p, t + tau_, MeanDelta(p)});
    }
    for (const Sent& sent : sent_) {
      if (sent.due == t) Apply(sent);
    }
    std::erase_if(sent_, [t](const Sent& sent) { return sent.due == t; });
  }
  double local(size_t m, size_t i) const { return local_[m][i]; }
  double outer(size_t i) const { return outer_[i]; }

 private:
  struct Sent {
    uint64_t fragment, due;
    std::vector<double> delta;
  };

  double Loss(const test::ReferenceLlama& network, const std::vector<int32_t>& batch) const {
    double sum = 0;
    for (size_t s = 0; s < kSequences; ++s) {
      const auto row = batch.begin() + static_cast<std::ptrdiff_t>(s * kLength);
      sum += network.Loss({row, row + kLength}, -1, 0);
    }
    return sum / (kSequences * (kLength - 1));
  }

  void InnerStep(size_t m, uint64_t t) {
    std::vector<double>& p = local_[m];
    test::ReferenceLlama network(job_.model, layout_, std::vector<float>(p.size()));
    for (size_t i = 0; i < p.size(); ++i) network.parameter(i) = p[i];
    const std::vector<int32_t> batch = Batch(m, t);
    std::vector<double> gradient(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double h = 1e-5;
      network.parameter(i) = p[i] + h;
      const double above = Loss(network, batch);
      network.parameter(i) = p[i] - h;
      gradient[i] = (above - Loss(network, batch)) / (2 * h);
      network.parameter(i) = p[i];
    }
    for (const TensorInfo& tensor : layout_.tensors) {
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i) {
        p[i] =
            adamw_[m][i].Update(p[i], gradient[i], kInnerRate, tensor.decay ? job_.inner.weight_decay : 0, job_.inner);
      }
    }
  }

  std::vector<double> MeanDelta(uint64_t p) const {
    const FragmentInfo& place = layout_.fragments[p];
    std::vector<double> delta(place.elements);
    for (size_t i = 0; i < delta.size(); ++i) {
      for (size_t m = 0; m < kWorkers; ++m) {
        delta[i] += (outer_[place.offset + i] - local_[m][place.offset + i]) / kWorkers;
      }
    }
    return delta;
  }

  void Apply(const Sent& sent) {
    const uint64_t begin = layout_.fragments[sent.fragment].offset;
    for (size_t i = 0; i < sent.delta.size(); ++i) {
      double& buffer = momentum_[begin + i];
      double& theta = outer_[begin + i];
      buffer = kMomentum * buffer + sent.delta[i];
      theta -= kOuterRate * (sent.delta[i] + kMomentum * buffer);
      for (std::vector<double>& local : local_) local[begin + i] = alpha_ * local[begin + i] + (1 - alpha_) * theta;
    }
  }

  const JobSpec& job_;
  const ModelLayout& layout_;
  const uint32_t tau_;
  const double alpha_;
  std::vector<double> outer_, momentum_;
  std::vector<std::vector<double>> local_;
  std::vector<std::vector<ScalarAdamW>> adamw_;
  std::vector<Sent> sent_;
};

struct Setting {
  FragmentPattern pattern;
  uint32_t tau;
  double alpha;
};

class StreamingAdamW : public testing::TestWithParam<Setting> {};

TEST_P(StreamingAdamW, FollowsTheReference) {
  const auto [pattern, tau, alpha] = GetParam();
  const JobSpec job = Job();
  const ModelLayout layout = MakeModelLayout(job.model, pattern, 1);
  ASSERT_EQ(layout.fragments.size(), pattern == FragmentPattern::kWhole ? 1u : 3u);
  std::vector<float> start(layout.elements);
  InitialParameters(layout, 7, 0, start);
  for (float& value : start) value *= 8;  // as if trained: gradients of every tensor matter

  const SystemClock clock;
  CpuStepKernels kernels;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (size_t m = 0; m < kWorkers; ++m) {
    TrainerOptions options;
    options.available_bytes = uint64_t{1} << 30;
    options.kernels = &kernels;  // as in a worker
    auto made = Trainer::Create(job, layout, options, clock);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE((*made)->kernels_refused().ok()) << (*made)->kernels_refused();
    trainers.push_back(*std::move(made));
  }
  const LoopOptions options = {
      .inner_steps = kPeriod,
      .overlap_steps = tau,
      .mix = alpha,
      .outer = {.kind = OuterKind::kNesterov, .learning_rate = kOuterRate, .momentum = kMomentum}};
  Loop loop(layout, options, start, kWorkers);
  Reference reference(job, layout, start, tau, alpha);
  for (uint64_t t = 1; t <= kSteps; ++t) {
    loop.Step([&](size_t m, uint64_t step, std::span<float> local) {
      const std::span<float> parameters = trainers[m]->parameters().host();
      std::copy(local.begin(), local.end(), parameters.begin());
      const std::vector<int32_t> batch = Batch(m, step);
      const auto report = trainers[m]->Step({batch, kSequences}, kInnerRate);
      ASSERT_TRUE(report.ok() && report->applied) << report.status();
      std::copy(parameters.begin(), parameters.end(), local.begin());
    });
    reference.Step(t);
  }

  // fp32 rounding relative to the distance moved. A rule that is broken for one fragment gives at
  // least ten times this.
  double off = 0, moved = 0;
  for (size_t i = 0; i < layout.elements; ++i) {
    const double began = static_cast<double>(start[i]);
    off += std::pow(static_cast<double>(loop.outer(0)[i]) - reference.outer(i), 2);
    moved += std::pow(reference.outer(i) - began, 2);
    for (size_t m = 0; m < kWorkers; ++m) {
      off += std::pow(static_cast<double>(loop.local(m)[i]) - reference.local(m, i), 2);
      moved += std::pow(reference.local(m, i) - began, 2);
    }
  }
  EXPECT_GT(std::sqrt(moved / static_cast<double>(layout.elements)), 0.01);
  EXPECT_LT(std::sqrt(off / moved), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(All, StreamingAdamW,
                         testing::Values(Setting{FragmentPattern::kWhole, 0, 0.0},
                                         Setting{FragmentPattern::kStrided, 0, 0.0},
                                         Setting{FragmentPattern::kStrided, 1, 0.0},
                                         Setting{FragmentPattern::kSequential, 2, 0.5},
                                         Setting{FragmentPattern::kBalanced, 5, 0.0}));

}  // namespace
}  // namespace atl::numerics
