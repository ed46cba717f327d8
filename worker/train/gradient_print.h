// SPDX-License-Identifier: Apache-2.0
// A summary of the gradient arena that shows whether two computations agree without keeping both:
// norm and sum of every block of 4,096 elements. Private to worker/train; no LibTorch type appears here.
#ifndef ATOLL_WORKER_TRAIN_GRADIENT_PRINT_H_
#define ATOLL_WORKER_TRAIN_GRADIENT_PRINT_H_

#include <vector>

#include "common/base/status.h"
#include "worker/model/arena.h"

namespace atl {

struct GradientPrint {
  double loss = 0;  // nats, summed over targets
  std::vector<float> norms, sums;
};

absl::StatusOr<GradientPrint> PrintOf(const Arena& gradients, double loss);

// OK if `got` equals `wanted` except for the order of the device's additions: the loss within 1e-5
// of its value, a block's norm and sum within a hundredth of its norm and a millionth of the
// largest block's. Otherwise FailedPrecondition, with the difference. Both must be of one arena; a
// non-finite value never agrees.
absl::Status Agree(const GradientPrint& got, const GradientPrint& wanted);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_GRADIENT_PRINT_H_
