// SPDX-License-Identifier: Apache-2.0
// The loss at the head of a model, and its gradients, for the form under autograd: scores are made for some rows at a
// time, judged, and turned into their gradient, so that they are never all there: by LibTorch's operators, or in one
// walk by kernels of the device. The form of a CPU is cpu_pass.h. Private to worker/model. Throws as LibTorch does,
// also where a kernel could not be launched.
#ifndef ATOLL_WORKER_MODEL_HEAD_LOSS_H_
#define ATOLL_WORKER_MODEL_HEAD_LOSS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "worker/device/pass_kernels.h"

namespace atl {

// `hidden` [rows, width] and `head` [vocab, width] are of one type, `targets` int64 [rows]; scores are judged in fp32.
struct HeadInputs {
  at::Tensor hidden, head, targets;
  int64_t rows_at_once = 0;
  PassKernels* kernels = nullptr;  // of the device; null: LibTorch's operators
};

// What is wanted of the scores of some rows: their loss, double, and with `scale` its gradient, of their type.
struct Verdict {
  at::Tensor loss, gradient;
};
// Of `scores` [rows, vocab] and `targets` int64 [rows]; otherwise as HeadLossAndGradients has them. The scores are used
// up: a gradient by kernels takes their place.
Verdict Judge(at::Tensor scores, const at::Tensor& targets, std::optional<double> scale, double z_loss,
              PassKernels* kernels);

// The sum over targets of -log p(target), double, on the device: reading it waits for the device.
at::Tensor HeadLoss(const HeadInputs& in);

// The same, gradients += scale * d(sum + z_loss * sum of logsumexp^2) / d(head) in fp32, and `hidden` likewise, of its
// type.
struct HeadOutcome {
  at::Tensor loss, hidden_gradient;
};
HeadOutcome HeadLossAndGradients(const HeadInputs& in, double scale, double z_loss, const at::Tensor& head_gradient);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_HEAD_LOSS_H_
