// SPDX-License-Identifier: Apache-2.0
#include "worker/model/pass_check.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <optional>
#include <vector>

#include "worker/model/head_loss.h"
#include "worker/model/pass_ops.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

// Tolerances: relative to each value, for fp32 exponentials; relative to the largest value, for
// sums with cancellation; and for a value stored as bf16, slightly more than its rounding.
constexpr double kOfEach = 2e-5, kOfLargest = 2e-6, kRounding = 1.02 * 0x1p-8;

// The device and kernels under test.
struct Place {
  PassKernels& kernels;
  at::TensorOptions options;  // device and type
};

// Values in [-1, 1] without a pattern that a wrong index would preserve.
at::Tensor Values(const Place& place, at::IntArrayRef shape, double salt) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  const at::Tensor index = at::arange(elements, place.options.dtype(at::kDouble));
  return (index * index * 0.37 + index * 1.7 + salt).sin().view(shape).to(place.options);
}

// FailedPrecondition unless `got` equals `wanted`, which is fp32 or double, within the tolerances.
absl::Status Agree(const char* what, const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor reference = wanted.to(at::kDouble);
  const double largest = reference.abs().max().item<double>();
  const double of_each = got.scalar_type() == at::kBFloat16 ? kOfEach + kRounding : kOfEach;
  const at::Tensor apart = (got.to(at::kDouble) - reference).abs();
  if ((apart - reference.abs() * of_each).max().item<double>() <= kOfLargest * largest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the device's kernels differ by up to ", apart.max().item<double>(),
                                                    " in ", what, " from LibTorch's result, with a largest value of ",
                                                    largest));
}

// Compares `make` by kernels with `make` by LibTorch in fp32 on the same values, including the
// gradient of a weighted sum of all its outputs.
template <typename Make>
absl::Status AgreeBothWays(const Place& place, const char* what, const at::Tensor& in, const Make& make) {
  const at::AutoGradMode grad(true);
  std::array<std::vector<at::Tensor>, 2> made;
  for (size_t by = 0; by < 2; ++by) {
    const at::ScalarType type = by == 0 ? in.scalar_type() : at::kFloat;
    const at::Tensor leaf = in.detach().clone().to(type).set_requires_grad(true);
    made[by] = make(leaf, by == 0 ? &place.kernels : nullptr);
    std::vector<at::Tensor> weights;
    for (size_t i = 0; i < made[by].size(); ++i) {
      weights.push_back(Values(place, made[by][i].sizes(), 0.5 + static_cast<double>(i)).to(type));
    }
    torch::autograd::backward(made[by], weights);
    made[by].push_back(leaf.grad());
  }
  for (size_t i = 0; i < made[0].size(); ++i) {
    ATOLL_RETURN_IF_ERROR(Agree(what, made[0][i].detach(), made[1][i].detach()));
  }
  return absl::OkStatus();
}

absl::Status CheckGate(const Place& place, int64_t width) {
  return AgreeBothWays(place, "SwiGLU", Values(place, {2, 5, 2 * width}, 0) * 3,
                       [](const at::Tensor& in, PassKernels* kernels) { return std::vector{Gated(in, kernels)}; });
}

struct HeadCounts {
  int64_t queries = 4, keys = 2;
};
// `rows` of angles: 1, shared by all sequences, or one for each sequence.
absl::Status CheckTurn(const Place& place, int64_t head_dim, int64_t rows, HeadCounts heads = {}) {
  constexpr int64_t kSequences = 2, kLength = 5;
  const at::Tensor angle = Values(place, {rows, kLength, 1, head_dim / 2}, 7) * 3;
  const at::Tensor cosines = angle.cos(), sines = angle.sin();
  const auto turned = [&](const at::Tensor& in, PassKernels* kernels) {
    const Positions positions{cosines.to(in.scalar_type()), sines.to(in.scalar_type()), {}, {}};
    const Heads parts = TurnedHeads(in, heads.queries, positions, kernels);
    return std::vector{parts.queries, parts.keys, parts.values};
  };
  return AgreeBothWays(place, "the rotary embedding",
                       Values(place, {kSequences, kLength, heads.queries + 2 * heads.keys, head_dim}, 0), turned);
}

absl::Status CheckJudge(const Place& place, int64_t vocab, double z_loss) {
  constexpr int64_t kRows = 5;
  constexpr double kScale = 0.25;
  const at::Tensor scores = Values(place, {kRows, vocab}, 0) * 6;
  const at::Tensor targets = (at::arange(kRows, place.options.dtype(at::kLong)) * 389).remainder(vocab);
  const auto judged = [&](std::optional<double> scale, PassKernels* kernels) {
    return Judge(kernels != nullptr ? scores.clone() : scores.to(at::kFloat, false, /*copy=*/true), targets, scale,
                 z_loss, kernels);
  };
  const LossAndGradient got = judged(kScale, &place.kernels), wanted = judged(kScale, nullptr);
  ATOLL_RETURN_IF_ERROR(Agree("the loss", got.loss, wanted.loss));
  ATOLL_RETURN_IF_ERROR(Agree("the loss alone", judged(std::nullopt, &place.kernels).loss, wanted.loss));
  return Agree("the gradient of scores", got.gradient, wanted.gradient);
}

absl::Status Check(const Place& place) {
  for (const int64_t width : {24, 5}) ATOLL_RETURN_IF_ERROR(CheckGate(place, width));
  for (const int64_t head_dim : {32, 6}) {
    for (const int64_t rows : {1, 2}) ATOLL_RETURN_IF_ERROR(CheckTurn(place, head_dim, rows));
  }
  ATOLL_RETURN_IF_ERROR(CheckJudge(place, 1003, 0));
  for (const int64_t vocab : {4104, 20008, 20011}) ATOLL_RETURN_IF_ERROR(CheckJudge(place, vocab, 1e-2));
  return absl::OkStatus();
}

absl::Status CheckOf(const Place& place, const ModelSpec& model) {
  ATOLL_RETURN_IF_ERROR(CheckGate(place, model.intermediate_size));
  for (const int64_t rows : {1, 2}) {
    ATOLL_RETURN_IF_ERROR(CheckTurn(place, model.head_dim, rows, {model.heads, model.kv_heads}));
  }
  return CheckJudge(place, model.vocab_size, model.z_loss);
}

}  // namespace

absl::Status CheckPassKernels(PassKernels& kernels, const ModelSpec& model, TensorDevice device) {
  return Guarded("comparing the kernels of a pass", [&]() -> absl::Status {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Place place{kernels, at::TensorOptions().device(ToTorch(device)).dtype(type)};
      ATOLL_RETURN_IF_ERROR(Check(place));
      ATOLL_RETURN_IF_ERROR(CheckOf(place, model));
    }
    return absl::OkStatus();
  });
}

}  // namespace atl
