// SPDX-License-Identifier: Apache-2.0
// Causal attention of a Llama's training step on a CPU and its gradient, of one key head of one sequence at a time with
// all query heads that share it: out = softmax(q k^T / sqrt(head_dim)) v, where a position attends to those from its
// `start` to itself. Run-time dispatched SIMD over plain memory; no LibTorch, no threads: the caller shares heads out.
// The same inputs give the same bits on one instruction set. Scores are held for 32 queries at once, those to the right
// of the diagonal are not computed, and the backward pass makes them anew from the logarithms of their sums
// (FlashAttention, arXiv:2205.14135, section 3.1).
//
// Values are fp32, or bf16 by their bits (T = uint16_t), in which case they are widened, computed with in fp32 and
// rounded to nearest even once. What is not finite leaves values that are not finite behind.
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
  size_t stride = 0;  // values from one position to the next, of all three
  size_t length = 0, head_dim = 0, query_heads = 0;
  const int32_t* starts = nullptr;  // [length], never decreasing, each at most its own position; null: 0 everywhere
};

// Where the result lies: position 0 of the first query head, the others head_dim apart.
template <typename T>
struct Mixed {
  T* out = nullptr;
  size_t stride = 0;          // values from one position to the next
  float* log_sums = nullptr;  // [query_heads, length], of the exponentials of a position's scores
};
void Forward(const HeadGroup<float>& group, const Mixed<float>& mixed);
void Forward(const HeadGroup<uint16_t>& group, const Mixed<uint16_t>& mixed);

// From the gradient of `out`, laid out like it, those of queries, keys and values, laid out like them (overwritten).
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
