// SPDX-License-Identifier: Apache-2.0
/* The boundary between the worker and its CUDA plugin: plain C types only. The plugin exports one function,
 * atoll_gpu_open; no C++ type, exception, allocator, logger or message crosses. Valid C and CUDA C++17.
 *
 * Calls return 0 for success and a negative number for failure, with an error message from last_error. All functions
 * may be called from any thread and may overlap, also for one context, except device_close and where noted: a context
 * has no mutable state, and work enqueued by several threads at once runs in any order. Calls for one event or one
 * piece of memory must not overlap. `compute_stream` is a cudaStream_t as a plain pointer: the stream on which the
 * caller's LibTorch work runs (null is the default stream). */
#ifndef ATOLL_WORKER_DEVICE_GPU_ABI_H_
#define ATOLL_WORKER_DEVICE_GPU_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "worker/device/gpu_pass_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when an existing entry changes; new entries are added at the end and found by table_bytes. */
#define ATOLL_GPU_ABI_REVISION 2u

typedef struct atoll_gpu_context atoll_gpu_context; /* one device, with streams of its own */
typedef struct atoll_gpu_event atoll_gpu_event;     /* a point on a stream */
typedef struct atoll_gpu_graph atoll_gpu_graph;     /* recorded LibTorch work */
typedef struct atoll_gpu_group
    atoll_gpu_group; /* this context as a member of a group of processes, with its own stream */

/* Identifies a group: made by one of its ranks, given to all. */
#define ATOLL_GPU_GROUP_KEY_BYTES 128
typedef struct atoll_gpu_group_key {
  uint8_t bytes[ATOLL_GPU_GROUP_KEY_BYTES];
} atoll_gpu_group_key;

typedef enum atoll_gpu_group_state {
  ATOLL_GPU_GROUP_BUSY = 0,    /* ranks are joining, or an exchange is being started: start no other */
  ATOLL_GPU_GROUP_RUNNING = 1, /* exchanges are running; another may be started */
  ATOLL_GPU_GROUP_IDLE = 2     /* all started exchanges are done */
} atoll_gpu_group_state;

/* Encodings of values: docs/formats/codecs.md. */
typedef enum atoll_gpu_codec {
  ATOLL_GPU_CODEC_FP32 = 0,
  ATOLL_GPU_CODEC_FP16 = 1,
  ATOLL_GPU_CODEC_BF16 = 2,
  ATOLL_GPU_CODEC_INT8 = 3,
  ATOLL_GPU_CODEC_MXFP4 = 4,
  ATOLL_GPU_CODEC_E3M0 = 5
} atoll_gpu_codec;

/* The factors of one AdamW update, the same for all elements of a range. */
typedef struct atoll_gpu_adamw {
  float gradient_factor; /* of the gradient, applied first (clipping) */
  float kept;            /* of the parameter: 1 - learning rate * weight decay */
  float first_share;     /* of the gradient in the first moment: 1 - beta1 */
  float second_kept;     /* of the second moment: beta2 */
  float second_share;    /* of the gradient's square in it: 1 - beta2 */
  float step_size;       /* learning rate / (1 - beta1^steps) */
  float second_scale;    /* of the second moment's root: 1 / sqrt(1 - beta2^steps) */
  float epsilon;
} atoll_gpu_adamw;

/* Elements per block in sum_squares, and in the sums of form. */
#define ATOLL_GPU_SUM_BLOCK 4096

/* Sums over one block, from forming a contribution. */
typedef struct atoll_gpu_block_sums {
  double sent_squares; /* of the encoded values; undefined, like the next, if largest is not finite */
  double lost_squares; /* of the codec's loss */
  uint32_t largest;    /* bits of the largest encoded magnitude; from 0x7f800000 on: not finite */
  uint32_t unused;
} atoll_gpu_block_sums;

/* A contribution to form: h = (outer - local) + residual, its encoding, and the loss. All ranges have `elements`
 * elements and are aligned to 4 bytes. */
typedef struct atoll_gpu_forming {
  atoll_gpu_codec codec;
  uint64_t elements;     /* 1 to 2^48 */
  const float* local;    /* device memory */
  const float* outer;    /* pinned, like all following memory except `scratch` */
  const float* residual; /* or null: h = outer - local */
  float* lost;           /* receives h minus its decoded encoding; null: not wanted */
  void* encoded;         /* the encoding of `elements` elements */
  uint64_t encoded_bytes;
  atoll_gpu_block_sums* sums; /* one per block of ATOLL_GPU_SUM_BLOCK, also for a partial one */
  void* scratch;              /* from memory_allocate, with at least the size given by form_scratch */
  uint64_t scratch_bytes;
} atoll_gpu_forming;

typedef struct atoll_gpu_table {
  uint32_t revision;    /* ATOLL_GPU_ABI_REVISION of the plugin */
  uint32_t table_bytes; /* sizeof(atoll_gpu_table) in the plugin */

  /* 0 with *count = 0 if the driver is missing or sees no device; last_error then has the reason. */
  int32_t (*device_count)(int32_t* count);
  int32_t (*device_open)(int32_t index, atoll_gpu_context** out);
  /* Waits for running work. Memory and events of the context must have been released. */
  void (*device_close)(atoll_gpu_context* context);
  /* The GPU's name, NUL-terminated, cut to fit. */
  int32_t (*device_name)(atoll_gpu_context* context, char* out, uint64_t out_bytes);
  /* Returns LibTorch's cached unused memory to the device first, so that it counts as free. */
  int32_t (*device_memory)(atoll_gpu_context* context, uint64_t* free_bytes, uint64_t* total_bytes);

  /* Page-locked host memory, aligned to 4 KiB. */
  int32_t (*pinned_allocate)(atoll_gpu_context* context, uint64_t bytes, void** out);
  int32_t (*pinned_free)(atoll_gpu_context* context, void* memory);

  /* Begin a copy on the copy stream, after everything enqueued on compute_stream so far, and return the event at its
   * end; work enqueued on compute_stream later waits for the copy. `host` must be pinned memory of this context. The
   * caller must not touch the memory until the event has occurred, except through such later work. */
  int32_t (*copy_to_host)(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes,
                          void* compute_stream, atoll_gpu_event** done);
  int32_t (*copy_to_device)(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes,
                            void* compute_stream, atoll_gpu_event** done);
  /* Blocks until the event has occurred. */
  int32_t (*event_wait)(atoll_gpu_event* event);
  /* *done = 1 if it has occurred, else 0. Does not block. */
  int32_t (*event_query)(atoll_gpu_event* event, int32_t* done);
  void (*event_release)(atoll_gpu_event* event);

  /* The calling thread's last error message, NUL-terminated, cut to fit. Empty if there was none. */
  void (*last_error)(char* out, uint64_t out_bytes);

  /* Codecs between device memory ranges that do not overlap: the same bytes and decoded bits as the host's
   * (common/codec). Enqueued on compute_stream without waiting. `values` is aligned to 4 bytes, `encoded` needs no
   * alignment. Fail, with nothing enqueued, unless encoded_bytes is the exact size for `elements` (at most 2^48).
   * The worker does not call them: the host encodes and decodes fragments. */
  int32_t (*codec_encode)(atoll_gpu_context* context, atoll_gpu_codec codec, const float* values, uint64_t elements,
                          void* encoded, uint64_t encoded_bytes, void* compute_stream);
  int32_t (*codec_decode)(atoll_gpu_context* context, atoll_gpu_codec codec, const void* encoded,
                          uint64_t encoded_bytes, float* values, uint64_t elements, void* compute_stream);

  /* Exchanges between the devices of several processes (NCCL). No call waits for another rank: group_poll returns the
   * state, and group_leave ends running exchanges. Calls for one group must not overlap. */
  int32_t (*group_key)(atoll_gpu_group_key* out);
  /* Rank `rank` of `world`, each with its own device. The context outlives the group. */
  int32_t (*group_join)(atoll_gpu_context* context, const atoll_gpu_group_key* key, int32_t rank, int32_t world,
                        atoll_gpu_group** out);
  /* Fails once the group is unusable: only group_leave is then allowed. */
  int32_t (*group_poll)(atoll_gpu_group* group, atoll_gpu_group_state* state);
  /* values := mean over ranks, the same bits on every rank. All ranks start the same exchanges in the same order. Each
   * runs after the earlier ones and after everything enqueued on compute_stream so far; work enqueued there later does
   * not wait for it. `values` is device memory and must not be touched until the group is idle. */
  int32_t (*group_mean)(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
  /* values := rank 0's values; otherwise as group_mean. */
  int32_t (*group_broadcast)(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
  void (*group_leave)(atoll_gpu_group* group);

  /* The inner optimizer over device memory ranges of `elements` floats (at most 2^48) that do not overlap. Enqueued on
   * compute_stream without waiting. One pass: updates parameters and both moments, writes the parameters rounded to
   * bf16 if `rounded` is not null, and leaves the scaled gradients, or zeros if `clear` is not 0. Ranges are aligned to
   * 4 bytes, `rounded` to 2. The bits do not depend on where the range begins. */
  int32_t (*adamw_step)(atoll_gpu_context* context, const atoll_gpu_adamw* factors, float* parameters, float* gradients,
                        float* first, float* second, uint16_t* rounded, uint64_t elements, int32_t clear,
                        void* compute_stream);
  /* sums[i] := the sum of squares of values [i * 4096, (i + 1) * 4096); the last block may be shorter. In fp32, in an
   * order that depends only on the size. */
  int32_t (*sum_squares)(atoll_gpu_context* context, const float* values, uint64_t elements, float* sums,
                         void* compute_stream);

  /* As copy_to_device, but enqueued on compute_stream itself, so it waits for no copy on the copy stream. For the
   * inputs of the next work on compute_stream. */
  int32_t (*feed_to_device)(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes,
                            void* compute_stream, atoll_gpu_event** done);

  /* Device memory, aligned to 256 bytes. memory_free waits for all work of the device. */
  int32_t (*memory_allocate)(atoll_gpu_context* context, uint64_t bytes, void** out);
  int32_t (*memory_free)(atoll_gpu_context* context, void* memory);

  /* Bytes of scratch for forming: a fragment's local parameters, its outer copy, its residual if any, and the results.
   */
  int32_t (*form_scratch)(atoll_gpu_codec codec, uint64_t elements, int32_t with_residual, uint64_t* bytes);
  /* Begins to form a contribution, on its own stream, from `local` as it is after everything enqueued on
   * compute_stream so far, and returns the event at its end. Work enqueued on compute_stream later waits only until
   * `local` has been copied within the device. Bytes, losses and sums equal the host's to the bit
   * (worker/gpu/form_math.h). The caller must not touch the memory, except `local`, until the event has occurred.
   * Fails, with nothing running, unless sizes agree. */
  int32_t (*form)(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream,
                  atoll_gpu_event** done);
  /* Only the pass of form, enqueued on compute_stream: all memory in the structure is device memory, and `scratch` is
   * not used. For benchmarks; the worker does not call it. */
  int32_t (*form_pass)(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream);

  /* As copy_to_host, but enqueued on compute_stream itself, so it waits for no copy of a fragment. */
  int32_t (*fetch_to_host)(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes,
                           void* compute_stream, atoll_gpu_event** done);

  /* local[i] := own * local[i] + others * outer[i], each operation rounded to fp32; own 0 and others 1: outer's bits.
   * `local` is device memory, `outer` pinned memory, which the device reads over the bus. Enqueued on compute_stream;
   * returns the event at its end, before which `outer` must not change. At most 2^48 elements. */
  int32_t (*merge)(atoll_gpu_context* context, float own, float others, const float* outer, float* local,
                   uint64_t elements, void* compute_stream, atoll_gpu_event** done);

  /* Records the LibTorch work that the calling thread enqueues, for replay (a CUDA graph; its temporary memory belongs
   * to LibTorch until graph_free). From graph_open to graph_close, LibTorch's current stream in this thread is a
   * recording stream, ordered after the earlier and before the later work of the default stream. Between graph_begin
   * and graph_end, work enqueued there is recorded and does not run; waiting for it makes the recording fail.
   * graph_end always ends a recording; it fails if nothing was recorded. */
  int32_t (*graph_open)(atoll_gpu_context* context, atoll_gpu_graph** out);
  int32_t (*graph_begin)(atoll_gpu_graph* graph);
  int32_t (*graph_end)(atoll_gpu_graph* graph);
  int32_t (*graph_close)(atoll_gpu_graph* graph);
  /* Enqueues the recorded work on the default stream. Call after graph_close. */
  int32_t (*graph_play)(atoll_gpu_graph* graph);
  /* Waits for running replays, then releases the recording and its memory. */
  void (*graph_free)(atoll_gpu_graph* graph);

  /* The parts of a model's pass between its products, over device memory. Enqueued on LibTorch's current stream of the
   * calling thread, so that a recording includes them. At most 2^31 values, except for judging. */
  int32_t (*judge)(atoll_gpu_context* context, const atoll_gpu_judging* judging);
  int32_t (*gate)(atoll_gpu_context* context, const atoll_gpu_gating* gating);
  int32_t (*gate_back)(atoll_gpu_context* context, const atoll_gpu_gating* gating);
  int32_t (*turn)(atoll_gpu_context* context, const atoll_gpu_turning* turning);
} atoll_gpu_table;

/* Whether the plugin's table has an entry. Every plugin of revision 1 has all entries up to last_error. */
#define ATOLL_GPU_HAS(table, entry) ((table)->table_bytes >= offsetof(atoll_gpu_table, entry) + sizeof((table)->entry))

/* The plugin's only export. Null if it does not support revision `abi`. The table is valid until the process ends. */
const atoll_gpu_table* atoll_gpu_open(uint32_t abi);
typedef const atoll_gpu_table* (*atoll_gpu_open_function)(uint32_t abi);
#define ATOLL_GPU_OPEN_SYMBOL "atoll_gpu_open"

#ifdef __cplusplus
}
#endif

#endif /* ATOLL_WORKER_DEVICE_GPU_ABI_H_ */
