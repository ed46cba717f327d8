#include "worker/model/pass_check.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <utility>
#include <vector>

#include "worker/model/head_loss.h"
#include "worker/model/pass_ops.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

// Of the largest value: what fp32 differs by in another order, and what bf16 does that is rounded between operators.
constexpr double kSlackFp32 = 2e-5, kSlackBf16 = 3e-2;

// Where the check takes place, and with which kernels.
struct Place {
  PassKernels& kernels;
  at::TensorOptions options;  // device and type
};

// Values in [-1, 1] without a pattern that a wrong index would keep.
at::Tensor Values(const Place& place, at::IntArrayRef shape, double salt) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  const at::Tensor index = at::arange(elements, place.options.dtype(at::kDouble));
  return (index * index * 0.37 + index * 1.7 + salt).sin().view(shape).to(place.options);
}

absl::Status Agree(const char* what, const at::Tensor& got, const at::Tensor& wanted) {
  const double slack = wanted.scalar_type() == at::kBFloat16 ? kSlackBf16 : kSlackFp32;
  const at::Tensor reference = wanted.to(at::kDouble);
  const double largest = reference.abs().max().item<double>();
  const double apart = (got.to(at::kDouble) - reference).abs().max().item<double>();
  if (apart <= slack * largest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the device's kernels differ by ", apart, " in ", what,
                                                    " from what LibTorch makes, whose largest is ", largest));
}

// `make` by kernels and by LibTorch, with the gradient of some weighted sum of all it makes.
template <typename Make>
absl::Status AgreeBothWays(const Place& place, const char* what, const at::Tensor& in, const Make& make) {
  const at::AutoGradMode grad(true);
  std::array<std::vector<at::Tensor>, 2> made;
  for (size_t by = 0; by < 2; ++by) {
    const at::Tensor leaf = in.detach().clone().set_requires_grad(true);
    made[by] = make(leaf, by == 0 ? &place.kernels : nullptr);
    std::vector<at::Tensor> weights;
    for (size_t i = 0; i < made[by].size(); ++i) {
      weights.push_back(Values(place, made[by][i].sizes(), 0.5 + static_cast<double>(i)));
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

// `rows` of angles: one of all sequences, or of each its own.
absl::Status CheckTurn(const Place& place, int64_t head_dim, int64_t rows) {
  constexpr int64_t kSequences = 2, kLength = 5, kHeads = 4, kKeys = 2;
  const at::Tensor angle = Values(place, {rows, kLength, 1, head_dim / 2}, 7) * 3;
  const Positions positions{angle.cos(), angle.sin(), {}, {}};
  const auto turned = [&positions](const at::Tensor& in, PassKernels* kernels) {
    const Heads heads = TurnedHeads(in, kHeads, positions, kernels);
    return std::vector{heads.queries, heads.keys, heads.values};
  };
  return AgreeBothWays(place, "the rotary embedding",
                       Values(place, {kSequences, kLength, kHeads + 2 * kKeys, head_dim}, 0), turned);
}

// In parts, of which the last one is shorter.
absl::Status CheckHead(const Place& place, int64_t vocab, double z_loss) {
  constexpr int64_t kRows = 11, kWidth = 16;
  HeadInputs in{Values(place, {kRows, kWidth}, 0) * 2, Values(place, {vocab, kWidth}, 3),
                (at::arange(kRows, place.options.dtype(at::kLong)) * 389).remainder(vocab), 4, nullptr};
  std::array<HeadOutcome, 2> made;
  std::array<at::Tensor, 2> head, loss;
  for (size_t by = 0; by < 2; ++by) {
    in.kernels = by == 0 ? &place.kernels : nullptr;
    head[by] = at::zeros({vocab, kWidth}, place.options.dtype(at::kFloat));
    made[by] = HeadLossAndGradients(in, 0.25, z_loss, head[by]);
    loss[by] = HeadLoss(in);
  }
  ATOLL_RETURN_IF_ERROR(Agree("the loss", made[0].loss.to(at::kFloat), made[1].loss.to(at::kFloat)));
  ATOLL_RETURN_IF_ERROR(Agree("the loss alone", loss[0].to(at::kFloat), loss[1].to(at::kFloat)));
  ATOLL_RETURN_IF_ERROR(
      Agree("the gradient of what the head judges", made[0].hidden_gradient, made[1].hidden_gradient));
  return Agree("the gradient of the head", head[0].to(place.options), head[1].to(place.options));
}

absl::Status Check(const Place& place) {
  for (const int64_t width : {24, 5}) ATOLL_RETURN_IF_ERROR(CheckGate(place, width));
  for (const int64_t head_dim : {32, 6}) {
    for (const int64_t rows : {1, 2}) ATOLL_RETURN_IF_ERROR(CheckTurn(place, head_dim, rows));
  }
  for (const int64_t vocab : {4096, 1003}) ATOLL_RETURN_IF_ERROR(CheckHead(place, vocab, vocab == 1003 ? 0 : 1e-2));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPassKernels(PassKernels& kernels, TensorDevice device) {
  return Guarded("comparing the kernels of a pass", [&]() -> absl::Status {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      ATOLL_RETURN_IF_ERROR(Check({kernels, at::TensorOptions().device(ToTorch(device)).dtype(type)}));
    }
    return absl::OkStatus();
  });
}

}  // namespace atl
