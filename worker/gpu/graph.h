// SPDX-License-Identifier: Apache-2.0
// The plugin's calls of LibTorch: the table's entries for recordings (worker/device/gpu_abi.h), by
// LibTorch's CUDA graphs, with a memory pool for the temporaries. Private to worker/gpu. No
// LibTorch type appears here, and no exception leaves.
#ifndef ATOLL_WORKER_GPU_GRAPH_H_
#define ATOLL_WORKER_GPU_GRAPH_H_

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// Returns LibTorch's cached free memory to the driver.
int32_t GiveBackCache(const atoll_gpu_context* context);

int32_t GraphOpen(atoll_gpu_context* context, atoll_gpu_graph** out);
int32_t GraphBegin(atoll_gpu_graph* graph);
int32_t GraphEnd(atoll_gpu_graph* graph);
int32_t GraphClose(atoll_gpu_graph* graph);
int32_t GraphPlay(atoll_gpu_graph* graph);
void GraphFree(atoll_gpu_graph* graph);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_GRAPH_H_
