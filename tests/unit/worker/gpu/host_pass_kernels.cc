// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/worker/gpu/host_pass_kernels.h"

#include "worker/gpu/pass_kernels.h"

namespace atl {
namespace {

absl::Status StatusOf(cudaError_t code) {
  return code == cudaSuccess ? absl::OkStatus() : absl::InternalError("a kernel was refused");
}

}  // namespace

absl::Status HostPassKernels::Judge(const atoll_gpu_judging& judging) {
  ++calls_;
  return StatusOf(gpu::JudgeOnDevice(judging, nullptr));
}
absl::Status HostPassKernels::Gate(const atoll_gpu_gating& gating) {
  ++calls_;
  return StatusOf(gpu::GateOnDevice(gating, nullptr));
}
absl::Status HostPassKernels::GateBack(const atoll_gpu_gating& gating) {
  ++calls_;
  return StatusOf(gpu::GateBackOnDevice(gating, nullptr));
}
absl::Status HostPassKernels::Turn(const atoll_gpu_turning& turning) {
  ++calls_;
  return StatusOf(gpu::TurnOnDevice(turning, nullptr));
}

}  // namespace atl
