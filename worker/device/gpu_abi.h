// SPDX-License-Identifier: Apache-2.0
/* The boundary between the worker and its CUDA plugin: plain C types only. The plugin exports one function,
 * atoll_gpu_open; no C++ type, exception, allocator, logger or message crosses. Valid C and CUDA C++17.
 *
 * Calls return 0 for success and a negative number for failure, with a sentence from last_error. All functions may be
 * called from any thread and may overlap, of one context too, but for device_close and where it is said: a context
 * holds nothing that changes, and what several threads enqueue at once goes in any order. Calls about one event or one
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
typedef struct atoll_gpu_graph atoll_gpu_graph;     /* recorded work of LibTorch's */
typedef struct atoll_gpu_group
    atoll_gpu_group; /* this context among those of other processes, with a stream of its own */

/* What a group is found by: made by one of its ranks, given to all. */
#define ATOLL_GPU_GROUP_KEY_BYTES 128
typedef struct atoll_gpu_group_key {
  uint8_t bytes[ATOLL_GPU_GROUP_KEY_BYTES];
} atoll_gpu_group_key;

typedef enum atoll_gpu_group_state {
  ATOLL_GPU_GROUP_BUSY = 0,    /* the ranks meet, or an exchange is being begun: no exchange may be begun now */
  ATOLL_GPU_GROUP_RUNNING = 1, /* exchanges are under way; another may be begun */
  ATOLL_GPU_GROUP_IDLE = 2     /* all that were begun are done */
} atoll_gpu_group_state;

/* How values become bytes: docs/formats/codecs.md. */
typedef enum atoll_gpu_codec {
  ATOLL_GPU_CODEC_FP32 = 0,
  ATOLL_GPU_CODEC_FP16 = 1,
  ATOLL_GPU_CODEC_BF16 = 2,
  ATOLL_GPU_CODEC_INT8 = 3,
  ATOLL_GPU_CODEC_MXFP4 = 4,
  ATOLL_GPU_CODEC_E3M0 = 5
} atoll_gpu_codec;

/* What one update of AdamW multiplies by, the same for all elements of a range. */
typedef struct atoll_gpu_adamw {
  float gradient_factor; /* of the gradient, before all else (clipping) */
  float kept;            /* of the parameter: 1 - learning rate * weight decay */
  float first_share;     /* of the gradient in the first moment: 1 - beta1 */
  float second_kept;     /* of the second moment: beta2 */
  float second_share;    /* of the gradient's square in it: 1 - beta2 */
  float step_size;       /* learning rate / (1 - beta1^steps) */
  float second_scale;    /* of the second moment's root: 1 / sqrt(1 - beta2^steps) */
  float epsilon;
} atoll_gpu_adamw;

/* Elements of a block of sum_squares, and of the sums of form. */
#define ATOLL_GPU_SUM_BLOCK 4096

/* What forming a contribution tells of a block. */
typedef struct atoll_gpu_block_sums {
  double sent_squares; /* of what is encoded; means nothing where largest is not finite, nor does the next */
  double lost_squares; /* of what the codec lost of it */
  uint32_t largest;    /* bits of the largest magnitude that is encoded; from 0x7f800000 on: not finite */
  uint32_t unused;
} atoll_gpu_block_sums;

/* A contribution to be formed: h = (outer - local) + residual, its bytes, and what they lose of it. All ranges have
 * `elements` elements and are aligned to 4 bytes. */
typedef struct atoll_gpu_forming {
  atoll_gpu_codec codec;
  uint64_t elements;     /* 1 to 2^48 */
  const float* local;    /* device memory */
  const float* outer;    /* pinned, as is all that follows but `scratch` */
  const float* residual; /* or null: h = outer - local */
  float* lost;           /* lost = h - D(q), or null where it is not wanted */
  void* encoded;         /* exactly what the codec makes of `elements` */
  uint64_t encoded_bytes;
  atoll_gpu_block_sums* sums; /* one for each block of ATOLL_GPU_SUM_BLOCK begun */
  void* scratch;              /* of memory_allocate: as form_scratch says for as many elements or more */
  uint64_t scratch_bytes;
} atoll_gpu_forming;

typedef struct atoll_gpu_table {
  uint32_t revision;    /* ATOLL_GPU_ABI_REVISION of the plugin */
  uint32_t table_bytes; /* sizeof(atoll_gpu_table) in the plugin */

  /* 0 with *count = 0 when the driver is missing or sees no device; last_error then says why. */
  int32_t (*device_count)(int32_t* count);
  int32_t (*device_open)(int32_t index, atoll_gpu_context** out);
  /* Waits for what is under way. Memory and events of the context must have been given back. */
  void (*device_close)(atoll_gpu_context* context);
  /* NUL-terminated, cut to fit. */
  int32_t (*device_name)(atoll_gpu_context* context, char* out, uint64_t out_bytes);
  /* Free is also what LibTorch kept of memory that nothing uses any more: it is given back first. */
  int32_t (*device_memory)(atoll_gpu_context* context, uint64_t* free_bytes, uint64_t* total_bytes);

  /* Page-locked host memory, aligned to 4 KiB. */
  int32_t (*pinned_allocate)(atoll_gpu_context* context, uint64_t bytes, void** out);
  int32_t (*pinned_free)(atoll_gpu_context* context, void* memory);

  /* Begin a copy on the copy stream, after everything enqueued on compute_stream so far, and give the event at its end;
   * work enqueued on compute_stream later waits for the copy. `host` must be pinned memory of this context. Memory
   * stays the caller's and untouched until the event has come, but for what such later work does with it. */
  int32_t (*copy_to_host)(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes,
                          void* compute_stream, atoll_gpu_event** done);
  int32_t (*copy_to_device)(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes,
                            void* compute_stream, atoll_gpu_event** done);
  /* Blocks until the event has come. */
  int32_t (*event_wait)(atoll_gpu_event* event);
  /* *done = 1 when it has come, else 0. Does not block. */
  int32_t (*event_query)(atoll_gpu_event* event, int32_t* done);
  void (*event_release)(atoll_gpu_event* event);

  /* The calling thread's newest failure as one sentence, NUL-terminated, cut to fit. Empty when there was none. */
  void (*last_error)(char* out, uint64_t out_bytes);

  /* Codecs between ranges of device memory that do not overlap: the same bytes and decoded bits as the host's
   * (common/codec). Enqueued on compute_stream; they wait for nothing. `values` is aligned to 4 bytes, `encoded` lies
   * anywhere. Fail, with nothing enqueued, unless encoded_bytes is exactly what `elements` (at most 2^48) take.
   * The worker does not call them: fragments are encoded and decoded by the host. */
  int32_t (*codec_encode)(atoll_gpu_context* context, atoll_gpu_codec codec, const float* values, uint64_t elements,
                          void* encoded, uint64_t encoded_bytes, void* compute_stream);
  int32_t (*codec_decode)(atoll_gpu_context* context, atoll_gpu_codec codec, const void* encoded,
                          uint64_t encoded_bytes, float* values, uint64_t elements, void* compute_stream);

  /* Exchanges between the devices of several processes (NCCL). No call waits for another rank: group_poll tells how far
   * things are, and group_leave ends whatever is under way. Calls of one group must not overlap. */
  int32_t (*group_key)(atoll_gpu_group_key* out);
  /* Rank `rank` of `world`, each on a device of its own. The context outlives the group. */
  int32_t (*group_join)(atoll_gpu_context* context, const atoll_gpu_group_key* key, int32_t rank, int32_t world,
                        atoll_gpu_group** out);
  /* Fails once the group is of no use any more: then it can only be left. */
  int32_t (*group_poll)(atoll_gpu_group* group, atoll_gpu_group_state* state);
  /* values := mean over ranks, the same bits on every rank. All ranks begin the same exchanges in the same order. Each
   * runs after those before it and after everything enqueued on compute_stream so far; work enqueued there later does
   * not wait for it. `values` is device memory, untouched until the group is idle. */
  int32_t (*group_mean)(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
  /* values := rank 0's; otherwise as above. */
  int32_t (*group_broadcast)(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
  void (*group_leave)(atoll_gpu_group* group);

  /* The inner optimizer over ranges of device memory of `elements` floats (at most 2^48) that do not overlap, enqueued
   * on compute_stream; they wait for nothing. One pass: updates parameters and both moments, writes the parameters
   * rounded to bf16 where `rounded` is not null, and leaves the scaled gradients, or zeros where `clear` is not 0.
   * Ranges are aligned to 4 bytes, `rounded` to 2. The same bits wherever the range begins. */
  int32_t (*adamw_step)(atoll_gpu_context* context, const atoll_gpu_adamw* factors, float* parameters, float* gradients,
                        float* first, float* second, uint16_t* rounded, uint64_t elements, int32_t clear,
                        void* compute_stream);
  /* sums[i] := the sum of squares of values [i * 4096, (i + 1) * 4096), the last block may be shorter; in fp32, in an
   * order that the size alone decides. */
  int32_t (*sum_squares)(atoll_gpu_context* context, const float* values, uint64_t elements, float* sums,
                         void* compute_stream);

  /* As copy_to_device, but enqueued on compute_stream itself: no copy on the copy stream is waited for. For what the
   * work enqueued there next begins with. */
  int32_t (*feed_to_device)(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes,
                            void* compute_stream, atoll_gpu_event** done);

  /* Memory of the device, aligned to 256 bytes. memory_free waits for all work of the device. */
  int32_t (*memory_allocate)(atoll_gpu_context* context, uint64_t bytes, void** out);
  int32_t (*memory_free)(atoll_gpu_context* context, void* memory);

  /* Bytes of scratch that forming takes: a fragment's local parameters, its outer copy and, where there is one, its
   * residual, with what is made of them. */
  int32_t (*form_scratch)(atoll_gpu_codec codec, uint64_t elements, int32_t with_residual, uint64_t* bytes);
  /* Begins to form a contribution, on a stream of its own, of `local` as it is after everything enqueued on
   * compute_stream so far, and gives the event at its end; work enqueued on compute_stream later waits only until
   * `local` has been copied within the device. Bytes, losses and sums are the host's to the bit
   * (worker/gpu/form_math.h). All memory but `local` stays the caller's and untouched until the event has come. Fails,
   * with nothing left under way, unless sizes agree. */
  int32_t (*form)(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream,
                  atoll_gpu_event** done);
  /* The one pass of it alone, over device memory, enqueued on compute_stream: `encoded`, `sums` and `scratch` of the
   * structure are device memory as all of it, and `scratch` is not used. For benchmarks; the worker does not call it.
   */
  int32_t (*form_pass)(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream);

  /* As copy_to_host, but enqueued on compute_stream itself: it waits behind no copy of a fragment. */
  int32_t (*fetch_to_host)(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes,
                           void* compute_stream, atoll_gpu_event** done);

  /* local[i] := own * local[i] + others * outer[i], each operation rounded to fp32; own 0 and others 1: outer's bits.
   * `local` is memory of the device, `outer` pinned memory, which the device reads over the bus. Enqueued on
   * compute_stream; gives the event at its end, until which outer stays as it is. At most 2^48 elements. */
  int32_t (*merge)(atoll_gpu_context* context, float own, float others, const float* outer, float* local,
                   uint64_t elements, void* compute_stream, atoll_gpu_event** done);

  /* What the calling thread has LibTorch enqueue on the device, recorded once and played again (a CUDA graph, whose
   * temporary memory stays LibTorch's until graph_free). From graph_open to graph_close LibTorch's current stream in
   * this thread is one of recording, ordered behind the default stream's work and before its later; between graph_begin
   * and graph_end what is enqueued there is recorded and does not run, and whoever waits for it makes the recording
   * fail. graph_end ends a recording in any case; it fails where there is nothing to play. */
  int32_t (*graph_open)(atoll_gpu_context* context, atoll_gpu_graph** out);
  int32_t (*graph_begin)(atoll_gpu_graph* graph);
  int32_t (*graph_end)(atoll_gpu_graph* graph);
  int32_t (*graph_close)(atoll_gpu_graph* graph);
  /* Enqueues what was recorded on the default stream. After graph_close. */
  int32_t (*graph_play)(atoll_gpu_graph* graph);
  /* Waits for playing under way. */
  void (*graph_free)(atoll_gpu_graph* graph);

  /* What a model's pass does between its products, over memory of the device. Enqueued on LibTorch's current stream in
   * the calling thread, so that a recording has it. At most 2^31 values, but for judging. */
  int32_t (*judge)(atoll_gpu_context* context, const atoll_gpu_judging* judging);
  int32_t (*gate)(atoll_gpu_context* context, const atoll_gpu_gating* gating);
  int32_t (*gate_back)(atoll_gpu_context* context, const atoll_gpu_gating* gating);
  int32_t (*turn)(atoll_gpu_context* context, const atoll_gpu_turning* turning);
} atoll_gpu_table;

/* Whether the plugin's table reaches as far as an entry. All up to last_error are in every plugin of revision 1. */
#define ATOLL_GPU_HAS(table, entry) ((table)->table_bytes >= offsetof(atoll_gpu_table, entry) + sizeof((table)->entry))

/* The plugin's only export. Null when it does not speak revision `abi`. The table lives until the process ends. */
const atoll_gpu_table* atoll_gpu_open(uint32_t abi);
typedef const atoll_gpu_table* (*atoll_gpu_open_function)(uint32_t abi);
#define ATOLL_GPU_OPEN_SYMBOL "atoll_gpu_open"

#ifdef __cplusplus
}
#endif

#endif /* ATOLL_WORKER_DEVICE_GPU_ABI_H_ */
