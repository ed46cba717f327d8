// SPDX-License-Identifier: Apache-2.0
// The work of a Llama's training step between matrix products, on a CPU: RMSNorm, rotary embeddings, SwiGLU and
// cross-entropy with their gradients, each in one pass over rows (one row: one token, or one head of it). Run-time
// dispatched SIMD over spans of plain memory; no LibTorch, no threads: the caller shares rows out. The same inputs give
// the same bits on one instruction set, however the rows are shared out.
//
// Values are fp32, or bf16 by their bits (T = uint16_t), in which case they are widened, computed with in fp32 and
// rounded to nearest even once.
#ifndef ATOLL_WORKER_MODEL_ROW_KERNELS_H_
#define ATOLL_WORKER_MODEL_ROW_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace atl::rows {

// `count` rows of `width` values, one after the other.
struct Shape {
  size_t count = 0, width = 0;
};

// sum = x + add, and normed = sum * weight / sqrt(mean(sum^2) + eps); the last factor's reciprocal root goes to
// `roots` (one a row). Without `add` (and then without `sum`) x is normed as it is. sum may be x.
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

// With y = Norm(x): from dy, dx = d(y)/d(x) dy, and d(y)/d(weight) dy added to weight_sum. `base` is added to dx where
// it is given. dx may be dy or base.
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

// Heads of one token, halves rotated against each other by the angles of its position (Hugging Face's rotate_half):
// (a, b) -> (a cos - b sin, b cos + a sin), in place. cos and sin have width / 2 values. The gradient is the rotation
// back: `backwards`.
void Rotate(Shape heads, const float* cos, const float* sin, bool backwards, float* x);
void Rotate(Shape heads, const float* cos, const float* sin, bool backwards, uint16_t* x);

// Rows of `gate_up` hold width gates, then width ups: out = gate * sigmoid(gate) * up.
void SwiGlu(Shape out_shape, const float* gate_up, float* out);
void SwiGlu(Shape out_shape, const uint16_t* gate_up, uint16_t* out);
// gate_up is overwritten with its gradient.
void SwiGluGradient(Shape out_shape, const float* dout, float* gate_up);
void SwiGluGradient(Shape out_shape, const uint16_t* dout, uint16_t* gate_up);

// Each row holds the scores of one target: returns the sum of -log p(target), and overwrites the row with
// scale * d(-log p(target) + z_loss * logsumexp^2) / d(scores). Targets lie in [0, width).
double CrossEntropy(Shape shape, const int64_t* targets, double scale, double z_loss, float* scores);
double CrossEntropy(Shape shape, const int64_t* targets, double scale, double z_loss, uint16_t* scores);

// out = x rounded to bf16, as fp32.
void RoundToBf16(size_t count, const float* x, float* out);

}  // namespace atl::rows

#endif  // ATOLL_WORKER_MODEL_ROW_KERNELS_H_
