// SPDX-License-Identifier: Apache-2.0
// The loss at the head of a model, and its gradients, for passes under autograd. Scores are computed for
// some rows at a time, used for the loss, and replaced by their gradient, so that they never exist all at
// once: by LibTorch's operators, or in one pass by kernels of the device. The CPU implementation is
// cpu_pass.h. Private to worker/model. Throws LibTorch's exceptions, also if a kernel could not be launched.
#ifndef ATOLL_WORKER_MODEL_HEAD_LOSS_H_
#define ATOLL_WORKER_MODEL_HEAD_LOSS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "worker/device/pass_kernels.h"

namespace atl {

// `hidden` [rows, width] and `head` [vocab, width] have one type, `targets` is int64 [rows]; losses
// are computed in fp32.
struct HeadInputs {
  at::Tensor hidden, head, targets;
  int64_t rows_at_once = 0;
  PassKernels* kernels = nullptr;  // the device's; null: LibTorch's operators
};

// The sum of the losses of some rows, double; if Judge got `scale`, also the gradient by the scores, in their type.
struct LossAndGradient {
  at::Tensor loss, gradient;
};
// The loss of `scores` [rows, vocab] with `targets` int64 [rows] and, if `scale` is given, its gradient, defined as
// for HeadLossAndGradients. Consumes the scores: the gradient may overwrite them.
LossAndGradient Judge(at::Tensor scores, const at::Tensor& targets, std::optional<double> scale, double z_loss,
                      PassKernels* kernels);

// The sum over targets of -log p(target), double, on the device: reading it waits for the device.
at::Tensor HeadLoss(const HeadInputs& in);

// As HeadLoss. Also gradients += scale * d(sum + z_loss * sum of logsumexp^2) / d(head) in fp32,
// and the gradient of `hidden` in its type.
struct HeadOutcome {
  at::Tensor loss, hidden_gradient;
};
HeadOutcome HeadLossAndGradients(const HeadInputs& in, double scale, double z_loss, const at::Tensor& head_gradient);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_HEAD_LOSS_H_
