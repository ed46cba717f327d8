// SPDX-License-Identifier: Apache-2.0
/* What the kernels of a model's pass are given over the boundary of gpu_abi.h: plain C types only. All memory is the
 * device's. Valid C and CUDA C++17. */
#ifndef ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_
#define ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How values of a model's pass are held. */
typedef enum atoll_gpu_type { ATOLL_GPU_TYPE_FP32 = 0, ATOLL_GPU_TYPE_BF16 = 1 } atoll_gpu_type;

/* Rows of scores to be judged: of a row x with the target t, l = logsumexp(x), its loss is l - x[t], and
 * scale * d(loss + z_loss * l^2) / d(x) takes its place where gradients are wanted. All in fp32, rounded where a score
 * is bf16. A row with NaN or +infinity has NaN as its loss and gradients. */
typedef struct atoll_gpu_judging {
  int32_t type;           /* atoll_gpu_type */
  int32_t gradients;      /* 0: the scores stay as they are */
  void* scores;           /* rows x vocab, no room between rows */
  const int64_t* targets; /* of each row, below vocab */
  float* losses;          /* of each row */
  uint64_t rows;
  uint64_t vocab; /* below 2^31 */
  float scale, z_loss;
} atoll_gpu_judging;

/* SwiGLU over rows, which have no room between them: `gate_up` has width gates and then width ups in a row. */
typedef struct atoll_gpu_gating {
  int32_t type; /* atoll_gpu_type, of all */
  uint32_t width;
  uint64_t rows;
  const void* gate_up;  /* rows x 2 width */
  const void* gradient; /* rows x width, of the output: for gate_back alone */
  void* out;            /* gate: rows x width. gate_back: rows x 2 width, the gradients of gate_up */
} atoll_gpu_gating;

/* Rotary embedding: element i of the first half of each head and element i of the second are turned against each other
 * by the angle of their position, or back. Strides in elements, of a sequence, a position and a head; the elements of a
 * head have no room between them. `out` may be `in`. */
typedef struct atoll_gpu_turning {
  int32_t type; /* atoll_gpu_type, of all */
  int32_t back; /* not 0: the other way, as gradients go */
  uint32_t sequences, length, heads, head_dim;
  const void* in;
  uint64_t in_strides[3];
  void* out;
  uint64_t out_strides[3];
  const void *cosines, *sines; /* angle_rows x head_dim / 2, no room between */
  uint64_t angle_rows;         /* length: of each position; sequences x length: of each position of each sequence */
} atoll_gpu_turning;

#ifdef __cplusplus
}
#endif

#endif /* ATOLL_WORKER_DEVICE_GPU_PASS_ABI_H_ */
