// SPDX-License-Identifier: Apache-2.0
// Checks on a few values that a device's kernels agree with LibTorch's operators, before training uses them.
#ifndef ATOLL_WORKER_MODEL_PASS_CHECK_H_
#define ATOLL_WORKER_MODEL_PASS_CHECK_H_

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "worker/device/pass_kernels.h"
#include "worker/model/arena.h"

namespace atl {

// Compares losses, values and gradients in fp32 and in bf16: for a few rows of the sizes of `model`, and for
// sizes with and without 16-byte accesses. FailedPrecondition, with the difference, if they differ by more than
// rounding; the launch's error if one fails. Waits for the device.
absl::Status CheckPassKernels(PassKernels& kernels, const ModelSpec& model, TensorDevice device);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PASS_CHECK_H_
