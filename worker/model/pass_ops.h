// SPDX-License-Identifier: Apache-2.0
// What a pass under autograd does between products, by LibTorch's operators or by kernels of the device, which are one
// walk over memory each way. The form of a CPU is cpu_pass.h. Private to worker/model. Throws as LibTorch does, also
// where a kernel could not be launched.
#ifndef ATOLL_WORKER_MODEL_PASS_OPS_H_
#define ATOLL_WORKER_MODEL_PASS_OPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "common/base/status.h"
#include "worker/device/pass_kernels.h"
#include "worker/model/llama.h"

namespace atl {

// Throws an error that is not OK.
void OrThrow(const absl::Status& status);

// How `kernels` name a type: fp32 or bf16.
int32_t TypeOf(const at::Tensor& tensor);

// SwiGLU: [..., 2 width], gates and then ups, -> [..., width]. `kernels` may be null, here and below.
at::Tensor Gated(const at::Tensor& gate_up, PassKernels* kernels);

// Of [sequences, length, heads + 2 kv_heads, head_dim]: queries and keys turned by their positions, and values; each
// [sequences, length, its heads, head_dim].
struct Heads {
  at::Tensor queries, keys, values;
};
Heads TurnedHeads(const at::Tensor& qkv, int64_t heads, const Positions& positions, PassKernels* kernels);

// The same by LibTorch of queries and keys `qk` [sequences, length, heads + kv_heads, head_dim], and the values of
// `qkv`.
Heads RotatedHeads(const at::Tensor& qk, const at::Tensor& qkv, int64_t heads, const Positions& positions);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PASS_OPS_H_
