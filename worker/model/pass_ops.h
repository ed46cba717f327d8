// SPDX-License-Identifier: Apache-2.0
// The operations of a pass under autograd between products, by LibTorch's operators or by kernels of the
// device, which make one pass over memory in each direction. The CPU implementation is cpu_pass.h. Private to
// worker/model. Throws LibTorch's exceptions, also if a kernel could not be launched.
#ifndef ATOLL_WORKER_MODEL_PASS_OPS_H_
#define ATOLL_WORKER_MODEL_PASS_OPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "common/base/status.h"
#include "worker/device/pass_kernels.h"
#include "worker/model/llama.h"

namespace atl {

// Throws unless `status` is OK.
void OrThrow(const absl::Status& status);

// The type's code for `kernels`: fp32 or bf16.
int32_t TypeOf(const at::Tensor& tensor);

// SwiGLU: [..., 2 width], gates and then ups, -> [..., width]. By `kernels` or, if null, by LibTorch; the same
// applies to the functions below.
at::Tensor Gated(const at::Tensor& gate_up, PassKernels* kernels);

// From [sequences, length, heads + 2 kv_heads, head_dim]: queries and keys rotated by their
// positions, and values; each [sequences, length, its heads, head_dim].
struct Heads {
  at::Tensor queries, keys, values;
};
Heads TurnedHeads(const at::Tensor& qkv, int64_t heads, const Positions& positions, PassKernels* kernels);

// As TurnedHeads, always by LibTorch: rotates the queries and keys `qk` [sequences, length, heads + kv_heads,
// head_dim], and takes the values of `qkv`.
Heads RotatedHeads(const at::Tensor& qk, const at::Tensor& qkv, int64_t heads, const Positions& positions);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_PASS_OPS_H_
