// The optimizer by a device's kernels, whose arithmetic runs on the host here: training goes as with LibTorch's AdamW,
// and kernels that are wrong are found out before they touch a parameter.
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

using testing::HasSubstr;

// With one mistake, or none.
class HostKernels final : public StepKernels {
 public:
  enum class Mistake { kNone, kNoDecay, kNoClipping, kNoCorrection, kLastElement, kSums, kLaunch, kSumLaunch };
  explicit HostKernels(Mistake mistake = Mistake::kNone) : mistake_(mistake) {}

  absl::Status Adamw(const AdamwUpdate& given, const AdamwSpans& s, void* /*compute_stream*/) override {
    ++updates;
    if (mistake_ == Mistake::kLaunch) return absl::InternalError("no kernel image is available");
    AdamwUpdate update = given;
    if (mistake_ == Mistake::kNoDecay) update.decay = 0;
    if (mistake_ == Mistake::kNoClipping) update.gradient_factor = 1;
    if (mistake_ == Mistake::kNoCorrection) update.steps = 1'000'000;
    const atoll_gpu_adamw factors = FactorsOf(update);
    const size_t count = s.parameters.size() - (mistake_ == Mistake::kLastElement ? 1 : 0);
    for (size_t i = 0; i < count; ++i) {
      const adamw_math::Element e =
          adamw_math::Updated({s.parameters[i], s.gradients[i], s.first[i], s.second[i]}, factors);
      s.parameters[i] = e.parameter, s.gradients[i] = e.gradient, s.first[i] = e.first, s.second[i] = e.second;
    }
    return absl::OkStatus();
  }
  absl::Status SumSquares(std::span<const float> values, std::span<float> sums, void* /*compute_stream*/) override {
    if (mistake_ == Mistake::kSumLaunch) return absl::InternalError("no kernel image is available");
    const std::vector<float> made = adamw_cases::Sums(values);
    std::copy(made.begin(), made.end(), sums.begin());
    if (mistake_ == Mistake::kSums) sums.back() = sums.front();
    return absl::OkStatus();
  }
  int updates = 0;

 private:
  const Mistake mistake_;
};

struct Trained {
  absl::Status refused;
  std::vector<float> parameters;
  std::vector<double> losses, norms;
};

// Three steps of the tiny job, with clipping and decay.
Trained Train(StepKernels* kernels) {
  JobSpec job = TinyJob();
  job.inner.weight_decay = 0.1;
  job.inner.gradient_clip = 0.5;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.available_bytes = uint64_t{1} << 30;
  options.kernels = kernels;
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
  const auto parameters = trainer.parameters().host();
  out.parameters.assign(parameters.begin(), parameters.end());
  return out;
}

TEST(KernelOptimizer, TrainsAsLibTorchDoes) {
  HostKernels kernels;
  const Trained ours = Train(&kernels), wanted = Train(nullptr);
  EXPECT_TRUE(ours.refused.ok()) << ours.refused;
  EXPECT_GT(kernels.updates, 3 + 3) << "only the comparison used the kernels";
  ASSERT_EQ(ours.losses.size(), wanted.losses.size());
  for (size_t step = 0; step < wanted.losses.size(); ++step) {
    EXPECT_NEAR(ours.losses[step], wanted.losses[step], 1e-5 * wanted.losses[step]) << "step " << step;
    EXPECT_NEAR(ours.norms[step], wanted.norms[step], 1e-4 * wanted.norms[step]) << "step " << step;
  }
  EXPECT_GT(wanted.norms[0], 0.5) << "nothing was clipped";
  ASSERT_EQ(ours.parameters.size(), wanted.parameters.size());
  // An element whose gradient is all rounding moves by the learning rate either way; few are.
  size_t apart = 0;
  for (size_t i = 0; i < wanted.parameters.size(); ++i) {
    if (std::fabs(ours.parameters[i] - wanted.parameters[i]) > 1e-5f) ++apart;
  }
  EXPECT_LE(apart, wanted.parameters.size() / 1000);
}

TEST(KernelOptimizer, WrongKernelsAreNotUsed) {
  using enum HostKernels::Mistake;
  const Trained wanted = Train(nullptr);
  EXPECT_TRUE(wanted.refused.ok());
  for (const auto& [mistake, sentence] :
       {std::pair{kNoDecay, "of the parameters where LibTorch makes"}, std::pair{kNoClipping, "where LibTorch makes"},
        std::pair{kNoCorrection, "of the parameters where LibTorch makes"},
        std::pair{kLastElement, "of element 10006 of the parameters"},
        std::pair{kSums, "of element 2 of the sums of squares"}, std::pair{kLaunch, "no kernel image is available"},
        std::pair{kSumLaunch, "no kernel image is available"}}) {
    HostKernels kernels(mistake);
    const Trained got = Train(&kernels);
    EXPECT_THAT(std::string(got.refused.message()), HasSubstr(sentence));
    EXPECT_EQ(got.losses, wanted.losses);
    EXPECT_EQ(got.parameters, wanted.parameters);
  }
}

}  // namespace
}  // namespace atl
