// SPDX-License-Identifier: Apache-2.0
// A summary of the arena of gradients, for telling whether two ways to them agree without keeping both: norm and sum of
// every block of 4,096. Private to worker/train; LibTorch stays behind it.
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

// OK where `got` is `wanted` but for the order in which a device adds: the loss to 1e-5 of it, a block's norm and sum
// to a hundredth of its norm and a millionth of the largest block's. Otherwise FailedPrecondition, with what differs.
// Both are of one arena; something that is not finite agrees with nothing.
absl::Status Agree(const GradientPrint& got, const GradientPrint& wanted);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_GRADIENT_PRINT_H_
