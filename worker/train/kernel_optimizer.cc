// SPDX-License-Identifier: Apache-2.0
#include "worker/train/kernel_optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

constexpr size_t kChecked = 10'007;  // elements
constexpr uint64_t kUpdates = 3;     // before the one that rounds and clears
constexpr AdamwUpdate kUpdate{.learning_rate = 1e-2,
                              .decay = 0.1,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .steps = 1,
                              .gradient_factor = 0.25};

size_t BlocksOf(uint64_t elements) { return (elements + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK; }

// Parameters, gradients, first and second moments.
using Arenas = std::array<std::unique_ptr<Arena>, 4>;
constexpr std::array<const char*, 4> kNames = {"parameters", "gradients", "first moments", "second moments"};
// Absolute tolerance of each, in addition to a millionth of the value. Every update rounds the parameters.
constexpr std::array<float, 4> kSlack = {1e-6f, 0, 1e-8f, 1e-10f};

absl::StatusOr<Arenas> MakeArenas(TensorDevice device) {
  Arenas out;
  for (std::unique_ptr<Arena>& arena : out) {
    ATOLL_ASSIGN_OR_RETURN(arena, Arena::Create(kChecked, device));
  }
  return out;
}

std::vector<float> Gradients(uint64_t step) {
  Rng random(StreamKey(step, "optimizer kernels"));
  std::vector<float> out(kChecked);
  for (float& g : out) g = static_cast<float>(random.Uniform() * 2 - 1);
  return out;
}

AdamwSpans SpansOf(const Arenas& arenas) {
  return {arenas[0]->memory(), arenas[1]->memory(), arenas[2]->memory(), arenas[3]->memory(), {}};
}

void UpdateByLibTorch(const AdamwUpdate& u, const Arenas& arenas) {
  const at::NoGradGuard no_grad;
  const at::Tensor& p = TensorOf(*arenas[0]);
  const at::Tensor step = at::full({}, static_cast<double>(u.steps), p.options());
  const at::Tensor divisor = at::full({}, 1.0 / u.gradient_factor, p.options());
  at::_fused_adamw_({p}, {TensorOf(*arenas[1])}, {TensorOf(*arenas[2])}, {TensorOf(*arenas[3])}, {}, {step},
                    u.learning_rate, u.beta1, u.beta2, u.decay, u.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                    divisor);
}

absl::Status Differs(const char* what, size_t element, float got, float wanted) {
  return absl::FailedPreconditionError(absl::StrCat("the device's kernels compute ", got, " of element ", element,
                                                    " of the ", what, ", but LibTorch computes ", wanted));
}

// One update of `ours` by `kernels`, which also write `rounded` and clear if it is not empty, and of `reference`.
absl::Status UpdateBoth(StepKernels& kernels, uint64_t step, const Arenas& ours, const Arenas& reference,
                        std::span<uint16_t> rounded) {
  AdamwUpdate update = kUpdate;
  update.steps = step;
  update.clear = !rounded.empty();
  for (const Arenas* arenas : {&ours, &reference}) {
    ATOLL_RETURN_IF_ERROR((*arenas)[1]->Write(0, Gradients(step)));
  }
  AdamwSpans spans = SpansOf(ours);
  spans.rounded = rounded;
  ATOLL_RETURN_IF_ERROR(kernels.Adamw(update, spans, nullptr));
  UpdateByLibTorch(update, reference);
  return absl::OkStatus();
}

// Compares all four arenas, without the gradients if `cleared`.
absl::Status CheckValues(const Arenas& ours, const Arenas& reference, bool cleared) {
  std::vector<float> got(kChecked), wanted(kChecked);
  for (size_t which = 0; which < kNames.size(); ++which) {
    if (cleared && which == 1) continue;
    ATOLL_RETURN_IF_ERROR(ours[which]->Read(0, got));
    ATOLL_RETURN_IF_ERROR(reference[which]->Read(0, wanted));
    for (size_t i = 0; i < kChecked; ++i) {
      const float most = std::fabs(wanted[i]) * 1e-6f + kSlack[which];
      if (!(std::fabs(got[i] - wanted[i]) <= most)) return Differs(kNames[which], i, got[i], wanted[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUpdates(StepKernels& kernels, const Arenas& ours, const Arenas& reference) {
  for (const Arenas* arenas : {&ours, &reference}) ATOLL_RETURN_IF_ERROR((*arenas)[0]->Write(0, Gradients(0)));
  for (uint64_t step = 1; step <= kUpdates; ++step) {
    ATOLL_RETURN_IF_ERROR(UpdateBoth(kernels, step, ours, reference, {}));
  }
  return CheckValues(ours, reference, /*cleared=*/false);
}

// The update as in training: the rounded copy equals LibTorch's rounding of the same parameters,
// and gradients are zero.
absl::Status CheckRoundingUpdate(StepKernels& kernels, const Arenas& ours, const Arenas& reference, Arena& memory) {
  const std::span<uint16_t> rounded(reinterpret_cast<uint16_t*>(memory.memory().data()), kChecked);
  ATOLL_RETURN_IF_ERROR(UpdateBoth(kernels, kUpdates + 1, ours, reference, rounded));
  ATOLL_RETURN_IF_ERROR(CheckValues(ours, reference, /*cleared=*/true));
  const at::Tensor wanted = TensorOf(*ours[0]).to(at::kBFloat16).to(at::kFloat).cpu();
  const at::Tensor got = TensorOf(memory).view(at::kBFloat16).narrow(0, 0, kChecked).to(at::kFloat).cpu();
  const at::Tensor left = TensorOf(*ours[1]).cpu();
  for (size_t i = 0; i < kChecked; ++i) {
    const float of_ours = got.const_data_ptr<float>()[i], of_libtorch = wanted.const_data_ptr<float>()[i];
    if (!(of_ours == of_libtorch)) return Differs("rounded parameters", i, of_ours, of_libtorch);
    const float kept = left.const_data_ptr<float>()[i];
    if (!(kept == 0)) return Differs("cleared gradients", i, kept, 0);
  }
  return absl::OkStatus();
}

// Checks the sums of the gradients after the updates.
absl::Status CheckSums(StepKernels& kernels, const Arena& gradients, Arena& sums) {
  std::vector<float> values(kChecked), got(BlocksOf(kChecked));
  ATOLL_RETURN_IF_ERROR(kernels.SumSquares(gradients.memory(), sums.memory().first(got.size()), nullptr));
  ATOLL_RETURN_IF_ERROR(gradients.Read(0, values));
  ATOLL_RETURN_IF_ERROR(kernels.Fetch(sums.memory().first(got.size()), got, nullptr));
  for (size_t block = 0; block < got.size(); ++block) {
    double wanted = 0;
    const size_t end = std::min(kChecked, (block + 1) * ATOLL_GPU_SUM_BLOCK);
    for (size_t i = block * ATOLL_GPU_SUM_BLOCK; i < end; ++i) {
      wanted += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    if (!(std::fabs(static_cast<double>(got[block]) - wanted) <= 1e-5 * wanted)) {
      return Differs("sums of squares", block, got[block], static_cast<float>(wanted));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKernels(StepKernels& kernels, TensorDevice device) {
  return Guarded("comparing the optimizer's kernels", [&]() -> absl::Status {
    ATOLL_ASSIGN_OR_RETURN(const Arenas ours, MakeArenas(device));
    ATOLL_ASSIGN_OR_RETURN(const Arenas reference, MakeArenas(device));
    ATOLL_ASSIGN_OR_RETURN(const auto memory, Arena::Create(kChecked, device));  // for sums and for the rounded copy
    ATOLL_RETURN_IF_ERROR(CheckUpdates(kernels, ours, reference));
    ATOLL_RETURN_IF_ERROR(CheckSums(kernels, *ours[1], *memory));
    return CheckRoundingUpdate(kernels, ours, reference, *memory);
  });
}

absl::StatusOr<std::unique_ptr<KernelNorm>> KernelNorm::Create(StepKernels& kernels, Arena& gradients) {
  ATOLL_ASSIGN_OR_RETURN(auto sums, Arena::Create(BlocksOf(gradients.elements()), gradients.device()));
  return std::unique_ptr<KernelNorm>(new KernelNorm(kernels, gradients, std::move(sums)));
}

absl::StatusOr<double> KernelNorm::Norm() {
  ATOLL_RETURN_IF_ERROR(kernels_.SumSquares(gradients_.memory(), sums_->memory(), nullptr));
  ATOLL_RETURN_IF_ERROR(kernels_.Fetch(sums_->memory(), fetched_, nullptr));
  double sum = 0;
  for (const float block : fetched_) sum += static_cast<double>(block);
  return std::sqrt(sum);
}

}  // namespace atl
