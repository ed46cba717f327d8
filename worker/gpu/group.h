// SPDX-License-Identifier: Apache-2.0
// The group entries of worker/device/gpu_abi.h, by NCCL communicators in non-blocking mode. Private
// to worker/gpu.
#ifndef ATOLL_WORKER_GPU_GROUP_H_
#define ATOLL_WORKER_GPU_GROUP_H_

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

int32_t GroupKey(atoll_gpu_group_key* out);
int32_t GroupJoin(atoll_gpu_context* context, const atoll_gpu_group_key* key, int32_t rank, int32_t world,
                  atoll_gpu_group** out);
int32_t GroupPoll(atoll_gpu_group* group, atoll_gpu_group_state* state);
int32_t GroupMean(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
int32_t GroupBroadcast(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream);
void GroupLeave(atoll_gpu_group* group);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_GROUP_H_
