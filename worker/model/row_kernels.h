// SPDX-License-Identifier: Apache-2.0
// The parts of a Llama's training step between matrix products, on a CPU: RMSNorm, rotary embeddings, SwiGLU
// and cross-entropy with their gradients, each in one pass over rows (a row is one token, or one head of it).
// Run-time dispatched SIMD over spans of plain memory; no LibTorch, no threads: the caller distributes the
// rows. The same inputs give the same bits on one instruction set, for any distribution.
//
// Values are fp32, or bf16 as bits (T = uint16_t), which are widened, processed in fp32 and rounded
// once to nearest even.
#ifndef ATOLL_WORKER_MODEL_ROW_KERNELS_H_
#define ATOLL_WORKER_MODEL_ROW_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace atl::rows {

// `count` contiguous rows of `width` values.
struct Shape {
  size_t count = 0, width = 0;
};

// sum = x + add, and normed = sum * weight / sqrt(mean(sum^2) + eps); `roots` gets 1 / sqrt(mean(sum^2) + eps),
// one per row. Without `add` (and then without `sum`) x itself is normed. sum may be x.
template <typename T>
struct NormArguments {
  const T* x = nullptr;
  const T* add = nullptr;
  const T* weight = nullptr;  // [width]
  T* sum = nullptr;
  T* normed = nullptr;
  float* roots = nullptr;
  double eps = 0;
};
void Norm(Shape shape, const NormArguments<float>& a);
void Norm(Shape shape, const NormArguments<uint16_t>& a);

// With y = Norm(x): from dy, computes dx = d(y)/d(x) dy, plus `base` if given, and adds
// d(y)/d(weight) dy to weight_sum. dx may be dy or base.
template <typename T>
struct NormGradientArguments {
  const T* dy = nullptr;
  const T* x = nullptr;
  const T* weight = nullptr;
  const float* roots = nullptr;
  const T* base = nullptr;
  T* dx = nullptr;
  float* weight_sum = nullptr;  // [width]
};
void NormGradient(Shape shape, const NormGradientArguments<float>& a);
void NormGradient(Shape shape, const NormGradientArguments<uint16_t>& a);

// Heads of one token: rotates their halves by the angles of the position (Hugging Face's
// rotate_half), (a, b) -> (a cos - b sin, b cos + a sin), in place. cos and sin have width / 2
// values. The gradient is the inverse rotation: `backwards`.
void Rotate(Shape heads, const float* cos, const float* sin, bool backwards, float* x);
void Rotate(Shape heads, const float* cos, const float* sin, bool backwards, uint16_t* x);

// A row of `gate_up` has `width` gates, then `width` ups: out = gate * sigmoid(gate) * up.
void SwiGlu(Shape out_shape, const float* gate_up, float* out);
void SwiGlu(Shape out_shape, const uint16_t* gate_up, uint16_t* out);
// Overwrites gate_up with its gradient.
void SwiGluGradient(Shape out_shape, const float* dout, float* gate_up);
void SwiGluGradient(Shape out_shape, const uint16_t* dout, uint16_t* gate_up);

// Each row has the scores of one target: returns the sum of -log p(target), and overwrites the row
// with scale * d(-log p(target) + z_loss * logsumexp^2) / d(scores). Targets are in [0, width).
double CrossEntropy(Shape shape, const int64_t* targets, double scale, double z_loss, float* scores);
double CrossEntropy(Shape shape, const int64_t* targets, double scale, double z_loss, uint16_t* scores);

// out = x rounded to bf16, as fp32.
void RoundToBf16(size_t count, const float* x, float* out);

}  // namespace atl::rows

#endif  // ATOLL_WORKER_MODEL_ROW_KERNELS_H_
