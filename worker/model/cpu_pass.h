// SPDX-License-Identifier: Apache-2.0
// The training pass of a Llama on a CPU, with explicit forward and backward code and no autograd.
// Matrix products are LibTorch's, attention is attention.h, the parts between them row_kernels.h.
// Gradients are added in place as they are computed. The scores of a pass never exist all at once:
// some rows at a time are computed, used for the loss, replaced by their gradient. Private to worker/model.
#ifndef ATOLL_WORKER_MODEL_CPU_PASS_H_
#define ATOLL_WORKER_MODEL_CPU_PASS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "common/plan/job_spec.h"
#include "worker/model/llama.h"

namespace atl {

// Returns the sum over all targets of -log p(target), and gradients += scale * d(sum + z_loss
// terms) / d(weights). `weights` are fp32 or bf16, and define the type of activations; `gradients`
// are the same views into an fp32 arena. `tokens` is int64 [sequences, length + 1] in host memory;
// `positions` is for the first `length`, with cos and sin in fp32. The result depends on the number
// of threads only if a matrix product does. `told`, if set, is called with the arena offset of each
// gradient that is complete for this pass. Throws LibTorch's exceptions.
double CpuForwardBackward(const ModelSpec& spec, const LlamaWeights& weights, const LlamaWeights& gradients,
                          const at::Tensor& tokens, const Positions& positions, double scale,
                          const std::function<void(uint64_t offset)>& told = {});
// The same sum, to the bit, without gradients.
double CpuForward(const ModelSpec& spec, const LlamaWeights& weights, const at::Tensor& tokens,
                  const Positions& positions);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_CPU_PASS_H_
