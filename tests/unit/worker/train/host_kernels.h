// SPDX-License-Identifier: Apache-2.0
// Optimizer kernels of a fake device with arithmetic on the host, with at most one mistake.
#ifndef ATOLL_TESTS_UNIT_WORKER_TRAIN_HOST_KERNELS_H_
#define ATOLL_TESTS_UNIT_WORKER_TRAIN_HOST_KERNELS_H_

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/unit/worker/gpu/adamw_cases.h"
#include "worker/device/step_kernels.h"

namespace atl {

class HostKernels final : public StepKernels {
 public:
  enum class Mistake {
    kNone,
    kNoDecay,
    kNoClipping,
    kNoCorrection,
    kLastElement,
    kTruncated,
    kNotRounded,
    kNotCleared,
    kSums,
    kLaunch,
    kSumLaunch
  };
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
      if (update.clear && mistake_ != Mistake::kNotCleared) s.gradients[i] = 0;
      if (!s.rounded.empty() && mistake_ != Mistake::kNotRounded) s.rounded[i] = Rounded(e.parameter);
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
  absl::Status Fetch(std::span<const float> from, std::span<float> to, void* /*compute_stream*/) override {
    std::copy(from.begin(), from.end(), to.begin());
    return absl::OkStatus();
  }
  int updates = 0;

 private:
  uint16_t Rounded(float x) const {
    if (mistake_ == Mistake::kTruncated) return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    return adamw_math::Rounded(x);
  }
  const Mistake mistake_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_TRAIN_HOST_KERNELS_H_
