#include "worker/model/head_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>

#include "worker/model/model.h"

namespace atl {
namespace {

constexpr int64_t kScoresAtOnce = int64_t{1} << 26;
constexpr int64_t kLeastRows = 256;

// Some rows with their scores in fp32.
struct Part {
  Part(const HeadInputs& in, int64_t first)
      : count(std::min(in.rows_at_once, in.hidden.size(0) - first)),
        hidden(in.hidden.narrow(0, first, count)),
        targets(in.targets.narrow(0, first, count).unsqueeze(1)),
        scores(at::mm(hidden, in.head.t()).to(at::kFloat)),
        log_sums(scores.logsumexp(1, /*keepdim=*/true)) {}
  at::Tensor Loss() const { return (log_sums - scores.gather(1, targets)).sum(at::kDouble); }

  int64_t count;
  at::Tensor hidden, targets, scores, log_sums;
};

void AddProduct(const at::Tensor& place, const at::Tensor& left, const at::Tensor& right) {
  if (left.scalar_type() == at::kFloat) {
    at::Tensor(place).addmm_(left, right);
  } else {
    place.add_(at::mm(left, right));
  }
}

}  // namespace

int64_t ScoreRows(int64_t vocab) { return std::max(kLeastRows, kScoresAtOnce / vocab); }

at::Tensor HeadLoss(const HeadInputs& in) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = at::zeros({}, in.hidden.options().dtype(at::kDouble));
  for (int64_t first = 0; first < in.hidden.size(0); first += in.rows_at_once) loss += Part(in, first).Loss();
  return loss;
}

HeadOutcome HeadLossAndGradients(const HeadInputs& in, double scale, double z_loss, const at::Tensor& head_gradient) {
  const at::NoGradGuard no_grad;
  HeadOutcome out{at::zeros({}, in.hidden.options().dtype(at::kDouble)), at::empty_like(in.hidden)};
  for (int64_t first = 0; first < in.hidden.size(0); first += in.rows_at_once) {
    Part part(in, first);
    out.loss += part.Loss();
    // d(-log p + z_loss logsumexp^2) = p (1 + 2 z_loss logsumexp) - one at the target
    at::Tensor gradient = part.scores.sub_(part.log_sums).exp_();
    gradient.mul_(z_loss == 0 ? at::full({}, scale, gradient.options())
                              : part.log_sums.mul(2 * z_loss).add_(1.0).mul_(scale));
    gradient.scatter_add_(1, part.targets, at::full({part.count, 1}, -scale, gradient.options()));
    gradient = gradient.to(in.hidden.scalar_type());
    at::Tensor place = out.hidden_gradient.narrow(0, first, part.count);
    at::mm_out(place, gradient, in.head);
    AddProduct(head_gradient, gradient.t(), part.hidden);
  }
  return out;
}

}  // namespace atl
