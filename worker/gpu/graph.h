// SPDX-License-Identifier: Apache-2.0
// What of the plugin calls LibTorch: the table's entries about recordings (worker/device/gpu_abi.h), by LibTorch's CUDA
// graphs, whose memory pool keeps the temporaries. Private to worker/gpu; LibTorch stays behind it, and none of its
// exceptions leaves.
#ifndef ATOLL_WORKER_GPU_GRAPH_H_
#define ATOLL_WORKER_GPU_GRAPH_H_

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// LibTorch keeps what was freed for itself; from here on the driver has it again.
int32_t GiveBackCache(const atoll_gpu_context* context);

int32_t GraphOpen(atoll_gpu_context* context, atoll_gpu_graph** out);
int32_t GraphBegin(atoll_gpu_graph* graph);
int32_t GraphEnd(atoll_gpu_graph* graph);
int32_t GraphClose(atoll_gpu_graph* graph);
int32_t GraphPlay(atoll_gpu_graph* graph);
void GraphFree(atoll_gpu_graph* graph);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_GRAPH_H_
