// SPDX-License-Identifier: Apache-2.0
// Whether a device's kernels do what LibTorch's operators do, found out on a few values before anything is trained by
// them.
#ifndef ATOLL_WORKER_MODEL_PASS_CHECK_H_
#define ATOLL_WORKER_MODEL_PASS_CHECK_H_

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "worker/device/pass_kernels.h"
#include "worker/model/arena.h"

namespace atl {

// Losses, values and gradients, in fp32 and in bf16, both ways: of a few rows of the sizes that `model` has, and of
// some that are read by 16 bytes and of others. FailedPrecondition where they differ by more than roundings do, with
// what differs; the launch's error where one fails. Waits for the device.
absl::Status CheckPassKernels(PassKernels& kernels, const ModelSpec& model, TensorDevice device);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PASS_CHECK_H_
