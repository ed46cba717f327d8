// SPDX-License-Identifier: Apache-2.0
/* Arguments for the kernels of a model's pass, across the boundary of gpu_abi.h: plain C types only. All memory is
 * device memory. Valid C and CUDA C++17. */
#ifndef ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_
#define ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The types of values in a model's pass. */
typedef enum atoll_gpu_type { ATOLL_GPU_TYPE_FP32 = 0, ATOLL_GPU_TYPE_BF16 = 1 } atoll_gpu_type;

/* Cross entropy over rows of scores. For a row x with target t and l = logsumexp(x), the loss is l - x[t]. If gradients
 * are wanted, scale * d(loss + z_loss * l^2) / d(x) replaces the row. Computed in fp32, rounded for bf16 scores. A row
 * with NaN or +infinity has NaN as its loss and gradients. */
typedef struct atoll_gpu_judging {
  int32_t type;           /* atoll_gpu_type */
  int32_t gradients;      /* 0: the scores stay unchanged */
  void* scores;           /* rows x vocab, contiguous */
  const int64_t* targets; /* of each row, below vocab */
  float* losses;          /* of each row */
  uint64_t rows;
  uint64_t vocab; /* below 2^31 */
  float scale, z_loss;
} atoll_gpu_judging;

/* SwiGLU over contiguous rows: a row of `gate_up` has `width` gates, then `width` ups. */
typedef struct atoll_gpu_gating {
  int32_t type; /* atoll_gpu_type, of all */
  uint32_t width;
  uint64_t rows;
  const void* gate_up;  /* rows x 2 width */
  const void* gradient; /* rows x width, of the output; only for gate_back */
  void* out;            /* gate: rows x width. gate_back: rows x 2 width, the gradients of gate_up */
} atoll_gpu_gating;

/* Rotary embedding: rotates the pair of element i of a head's first half and element i of its second half by the angle
 * of the position, or back. Strides in elements, of a sequence, a position and a head; the elements of a head are
 * contiguous. `out` may be `in`. */
typedef struct atoll_gpu_turning {
  int32_t type; /* atoll_gpu_type, of all */
  int32_t back; /* not 0: rotates back, as for gradients */
  uint32_t sequences, length, heads, head_dim;
  const void* in;
  uint64_t in_strides[3];
  void* out;
  uint64_t out_strides[3];
  const void *cosines, *sines; /* angle_rows x head_dim / 2, contiguous */
  uint64_t angle_rows;         /* length: one per position; sequences x length: one per position of each sequence */
} atoll_gpu_turning;

#ifdef __cplusplus
}
#endif

#endif /* ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_ */
