// SPDX-License-Identifier: Apache-2.0
// The training pass of a Llama on a CPU, forward and backward written out: matrix products are LibTorch's, attention is
// attention.h, what lies between them row_kernels.h, and gradients are added to their places as they come. No
// autograd. The scores of a pass are never all there: they are made, judged and turned into their gradient some rows at
// a time. Private to worker/model.
#ifndef ATOLL_WORKER_MODEL_CPU_PASS_H_
#define ATOLL_WORKER_MODEL_CPU_PASS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "common/plan/job_spec.h"
#include "worker/model/llama.h"

namespace atl {

// The sum over all targets of -log p(target), and gradients += scale * d(sum + z_loss terms) / d(weights). `weights`
// are fp32 or bf16 and give the type of activations; `gradients` are the same views into an fp32 arena. `tokens` is
// int64 [sequences, length + 1] in host memory, `positions` is of the first `length`, with cos and sin in fp32. The
// result does not depend on the number of threads but where a matrix product does. `told`, if there is one, hears the
// offset in the arena of each gradient that has all of this pass. Throws what LibTorch throws.
double CpuForwardBackward(const ModelSpec& spec, const LlamaWeights& weights, const LlamaWeights& gradients,
                          const at::Tensor& tokens, const Positions& positions, double scale,
                          const std::function<void(uint64_t offset)>& told = {});
// The same sum, to the bit, without gradients.
double CpuForward(const ModelSpec& spec, const LlamaWeights& weights, const at::Tensor& tokens,
                  const Positions& positions);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_CPU_PASS_H_
