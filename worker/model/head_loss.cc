// SPDX-License-Identifier: Apache-2.0
#include "worker/model/head_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "worker/model/model.h"
#include "worker/model/pass_ops.h"

namespace atl {
namespace {

constexpr int64_t kScoresAtOnce = int64_t{1} << 26;
constexpr int64_t kLeastRows = 256;
constexpr int64_t kByKernels = 4;  // times more rows with kernels, in the same memory (worker/train/memory.cc)

// Computes loss and gradient in fp32, on a copy of the scores if they have another type.
LossAndGradient ByLibTorch(at::Tensor scores, const at::Tensor& targets, std::optional<double> scale, double z_loss) {
  const at::ScalarType type = scores.scalar_type();
  scores = scores.to(at::kFloat);
  const at::Tensor columns = targets.unsqueeze(1);
  const at::Tensor log_sums = scores.logsumexp(1, /*keepdim=*/true);
  LossAndGradient out{(log_sums - scores.gather(1, columns)).sum(at::kDouble), {}};
  if (!scale.has_value()) return out;
  // d(-log p + z_loss logsumexp^2) = p (1 + 2 z_loss logsumexp) - one at the target
  at::Tensor gradient = scores.sub_(log_sums).exp_();
  gradient.mul_(z_loss == 0 ? at::full({}, *scale, gradient.options())
                            : log_sums.mul(2 * z_loss).add_(1.0).mul_(*scale));
  gradient.scatter_add_(1, columns, at::full(columns.sizes(), -*scale, gradient.options()));
  out.gradient = gradient.to(type);
  return out;
}

LossAndGradient ByKernels(PassKernels& kernels, const at::Tensor& scores, const at::Tensor& targets,
                          std::optional<double> scale, double z_loss) {
  const at::Tensor losses = at::empty(targets.sizes(), scores.options().dtype(at::kFloat));
  const at::Tensor of_rows = targets.contiguous();
  ATOLL_CHECK(scores.is_contiguous(), "rows of scores have no room between them");
  OrThrow(kernels.Judge({.type = TypeOf(scores),
                         .gradients = scale.has_value() ? 1 : 0,
                         .scores = scores.data_ptr(),
                         .targets = of_rows.const_data_ptr<int64_t>(),
                         .losses = losses.data_ptr<float>(),
                         .rows = static_cast<uint64_t>(scores.size(0)),
                         .vocab = static_cast<uint64_t>(scores.size(1)),
                         .scale = static_cast<float>(scale.value_or(0)),
                         .z_loss = static_cast<float>(z_loss)}));
  return {losses.sum(at::kDouble), scale.has_value() ? scores : at::Tensor()};
}

// Some rows of the head's inputs.
struct Part {
  Part(const HeadInputs& in, int64_t first)
      : count(std::min(in.rows_at_once, in.hidden.size(0) - first)),
        hidden(in.hidden.narrow(0, first, count)),
        targets(in.targets.narrow(0, first, count)) {}
  int64_t count;
  at::Tensor hidden, targets;
};

LossAndGradient JudgePart(const HeadInputs& in, const Part& part, std::optional<double> scale, double z_loss) {
  return Judge(at::mm(part.hidden, in.head.t()), part.targets, scale, z_loss, in.kernels);
}

void AddProduct(const at::Tensor& place, const at::Tensor& left, const at::Tensor& right) {
  if (left.scalar_type() == at::kFloat) {
    at::Tensor(place).addmm_(left, right);
  } else {
    place.add_(at::mm(left, right));
  }
}

}  // namespace

int64_t ScoreRows(int64_t vocab, bool by_kernels) {
  return std::max(kLeastRows, kScoresAtOnce / vocab) * (by_kernels ? kByKernels : 1);
}

LossAndGradient Judge(at::Tensor scores, const at::Tensor& targets, std::optional<double> scale, double z_loss,
                      PassKernels* kernels) {
  if (kernels != nullptr) return ByKernels(*kernels, scores, targets, scale, z_loss);
  return ByLibTorch(std::move(scores), targets, scale, z_loss);
}

at::Tensor HeadLoss(const HeadInputs& in) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = at::zeros({}, in.hidden.options().dtype(at::kDouble));
  for (int64_t first = 0; first < in.hidden.size(0); first += in.rows_at_once) {
    loss += JudgePart(in, Part(in, first), std::nullopt, 0).loss;
  }
  return loss;
}

HeadOutcome HeadLossAndGradients(const HeadInputs& in, double scale, double z_loss, const at::Tensor& head_gradient) {
  const at::NoGradGuard no_grad;
  HeadOutcome out{at::zeros({}, in.hidden.options().dtype(at::kDouble)), at::empty_like(in.hidden)};
  for (int64_t first = 0; first < in.hidden.size(0); first += in.rows_at_once) {
    const Part part(in, first);
    const LossAndGradient verdict = JudgePart(in, part, scale, z_loss);
    out.loss += verdict.loss;
    at::Tensor place = out.hidden_gradient.narrow(0, first, part.count);
    at::mm_out(place, verdict.gradient, in.head);
    AddProduct(head_gradient, verdict.gradient.t(), part.hidden);
  }
  return out;
}

}  // namespace atl
