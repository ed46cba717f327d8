// SPDX-License-Identifier: Apache-2.0
// The forward pass of a Llama as LibTorch operators over weights that are views into an arena. Private to worker/model.
#ifndef ATOLL_WORKER_MODEL_LLAMA_H_
#define ATOLL_WORKER_MODEL_LLAMA_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/model/model.h"

namespace atl {

// The weights of one transformer block, in the arena's order. Projections that read the same input are one matrix.
struct BlockWeights {
  at::Tensor input_norm;  // [hidden]
  at::Tensor qkv;         // [(heads + 2 kv_heads) head_dim, hidden]
  at::Tensor q_norm;      // [head_dim]; undefined without QK-norm
  at::Tensor k_norm;      // the same
  at::Tensor output;      // [hidden, heads head_dim]
  at::Tensor mlp_norm;    // [hidden]
  at::Tensor gate_up;     // [2 intermediate, hidden]
  at::Tensor down;        // [hidden, intermediate]
};

struct LlamaWeights {
  at::Tensor embedding;  // [vocab, hidden]
  std::vector<BlockWeights> blocks;
  at::Tensor final_norm;           // [hidden]
  at::Tensor head;                 // [vocab, hidden]; the embedding itself when tied
  std::vector<at::Tensor> leaves;  // each of the above once
  std::vector<uint64_t> offsets;   // of each leaf in the arena
};

// Views into `arena` (one dimension, of the layout's size); with `trainable` they are leaves of
// autograd. The layout must have been made from `spec`; otherwise the process stops.
LlamaWeights MapWeights(const ModelSpec& spec, const ModelLayout& layout, const at::Tensor& arena, bool trainable);

// The inputs of attention for a batch besides the tokens.
struct Positions {
  at::Tensor cos, sin;  // [1 or sequences, length, 1, head_dim / 2], of the activations' type
  at::Tensor mask;      // bool [sequences, 1, length, length], true where attended; undefined: plain causal
  at::Tensor starts;    // int32 [sequences, length], the first attended position; only with a mask
};

// Positions 0, 1, 2, … of every sequence or, with separate documents, from 0 again after each
// end-of-text token. `tokens` is int64 [sequences, length] on the weights' device.
Positions MakePositions(const ModelSpec& spec, const ModelOptions& options, const at::Tensor& tokens,
                        at::ScalarType type);

// [sequences, length] tokens -> [sequences, length, hidden], after the final norm. Uses `kernels`
// where they apply; null: LibTorch only.
at::Tensor LlamaHidden(const ModelSpec& spec, const LlamaWeights& weights, const at::Tensor& tokens,
                       const Positions& positions, PassKernels* kernels);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_LLAMA_H_
