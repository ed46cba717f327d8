// SPDX-License-Identifier: Apache-2.0
// Causal attention of a Llama's training step on a CPU, and its gradient, for one key head of one sequence at a
// time with all its query heads: out = softmax(q k^T / sqrt(head_dim)) v, where a position attends to those
// from its `start` to itself. Run-time dispatched SIMD over plain memory; no LibTorch, no threads: the caller
// distributes the heads. The same inputs give the same bits on one instruction set. Scores are in memory for 32
// queries at once, and not computed right of the diagonal; the backward pass recomputes them from the
// logarithms of their sums (FlashAttention, arXiv:2205.14135, section 3.1).
//
// Values are fp32, or bf16 as bits (T = uint16_t), which are widened, processed in fp32 and rounded
// once to nearest even. Non-finite inputs give non-finite results.
#ifndef ATOLL_WORKER_MODEL_ATTENTION_H_
#define ATOLL_WORKER_MODEL_ATTENTION_H_

#include <cstddef>
#include <cstdint>

namespace atl::attention {

template <typename T>
struct HeadGroup {
  const T* queries = nullptr;  // position 0 of the first query head; the others follow, head_dim apart
  const T* keys = nullptr;     // position 0
  const T* values = nullptr;
  size_t stride = 0;  // elements between positions, for all three
  size_t length = 0, head_dim = 0, query_heads = 0;
  const int32_t* starts = nullptr;  // [length], never decreasing, each at most its own position; null: 0 everywhere
};

// The result: position 0 of the first query head, the others head_dim apart.
template <typename T>
struct Mixed {
  T* out = nullptr;
  size_t stride = 0;          // elements between positions
  float* log_sums = nullptr;  // [query_heads, length], of the exponentials of a position's scores
};
void Forward(const HeadGroup<float>& group, const Mixed<float>& mixed);
void Forward(const HeadGroup<uint16_t>& group, const Mixed<uint16_t>& mixed);

// The gradient of `out`, in its layout, and those of queries, keys and values, in their layouts, which Backward
// computes from it and overwrites.
template <typename T>
struct Gradients {
  const T* dout = nullptr;
  T* dqueries = nullptr;
  T* dkeys = nullptr;
  T* dvalues = nullptr;
};
void Backward(const HeadGroup<float>& group, const Mixed<float>& mixed, const Gradients<float>& gradients);
void Backward(const HeadGroup<uint16_t>& group, const Mixed<uint16_t>& mixed, const Gradients<uint16_t>& gradients);

}  // namespace atl::attention

#endif  // ATOLL_WORKER_MODEL_ATTENTION_H_
