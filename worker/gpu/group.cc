// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <memory>
#include <new>

#include "worker/gpu/runtime.h"

struct atoll_gpu_group {
  int device = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t newest = nullptr;  // at the end of the newest exchange
  bool pending = true;           // NCCL has not enqueued the last request yet: no other request is allowed
  bool exchanging = false;       // the pending request is an exchange
  bool begun = false;            // `newest` was recorded
};

namespace atl::gpu {
namespace {

static_assert(sizeof(ncclUniqueId) == ATOLL_GPU_GROUP_KEY_BYTES);

int32_t FailOfNccl(const char* what, ncclComm_t communicator, ncclResult_t result) {
  // NCCL's own message, if there is one, is more specific than the result's name.
  const char* told = ncclGetLastError(communicator);
  return FailWith(what, told != nullptr && told[0] != '\0' ? told : ncclGetErrorString(result));
}

bool Accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Call once NCCL has enqueued the pending request. Records the event at the end of an exchange.
int32_t Enqueued(atoll_gpu_group* group) {
  group->pending = false;
  if (!group->exchanging) return 0;
  const cudaError_t code = cudaEventRecord(group->newest, group->stream);
  if (code != cudaSuccess) return Fail("cudaEventRecord", code);
  group->begun = true;
  return 0;
}

// Begins an exchange after the work on `compute_stream`. `enqueue` makes the one call of NCCL.
template <typename Enqueue>
int32_t Begin(atoll_gpu_group* group, const char* what, void* compute_stream, const Enqueue& enqueue) {
  if (group->pending) return FailWith(what, "another all-reduce or broadcast is still being started");
  const WithDevice device(group->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code = Order(static_cast<cudaStream_t>(compute_stream), group->stream);
  if (code != cudaSuccess) return Fail(what, code);
  const ncclResult_t result = enqueue();
  if (!Accepted(result)) return FailOfNccl(what, group->communicator, result);
  group->pending = group->exchanging = true;
  return result == ncclSuccess ? Enqueued(group) : 0;
}

// Exchanges have priority over the backward pass when both wait for a free slot on the device.
cudaError_t NewStream(cudaStream_t* out) {
  int lowest = 0, highest = 0;
  const cudaError_t code = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
  if (code != cudaSuccess) return code;
  return cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, highest);
}

}  // namespace

int32_t GroupKey(atoll_gpu_group_key* out) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return FailOfNccl("ncclGetUniqueId", nullptr, result);
  std::memcpy(out->bytes, id.internal, sizeof id.internal);
  return 0;
}

int32_t GroupJoin(atoll_gpu_context* context, const atoll_gpu_group_key* key, int32_t rank, int32_t world,
                  atoll_gpu_group** out) {
  *out = nullptr;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  std::unique_ptr<atoll_gpu_group> group(new (std::nothrow) atoll_gpu_group{});
  if (group == nullptr) return FailWith("out of host memory");
  group->device = context->device;
  cudaError_t code = NewStream(&group->stream);
  if (code == cudaSuccess) code = NewEvent(&group->newest);
  ncclResult_t result = ncclSuccess;
  if (code == cudaSuccess) {
    ncclUniqueId id;
    std::memcpy(id.internal, key->bytes, sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    result = ncclCommInitRankConfig(&group->communicator, world, id, rank, &config);
    if (Accepted(result)) {
      *out = group.release();
      return 0;
    }
  }
  const int32_t failed = code != cudaSuccess ? Fail("a stream for exchanges", code)
                                             : FailOfNccl("ncclCommInitRankConfig", nullptr, result);
  GroupLeave(group.release());
  return failed;
}

int32_t GroupPoll(atoll_gpu_group* group, atoll_gpu_group_state* state) {
  *state = ATOLL_GPU_GROUP_BUSY;
  const WithDevice device(group->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  ncclResult_t now = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(group->communicator, &now);
  if (asked != ncclSuccess) return FailOfNccl("ncclCommGetAsyncError", group->communicator, asked);
  if (now == ncclInProgress) return 0;
  if (now != ncclSuccess) return FailOfNccl("NCCL", group->communicator, now);
  if (group->pending && Enqueued(group) != 0) return kFailed;
  *state = ATOLL_GPU_GROUP_IDLE;
  if (!group->begun) return 0;
  const cudaError_t code = cudaEventQuery(group->newest);
  if (code == cudaSuccess) return 0;
  if (code != cudaErrorNotReady) return Fail("cudaEventQuery", code);
  static_cast<void>(cudaGetLastError());
  *state = ATOLL_GPU_GROUP_RUNNING;
  return 0;
}

int32_t GroupMean(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream) {
  return Begin(group, "an all-reduce", compute_stream, [&] {
    return ncclAllReduce(values, values, elements, ncclFloat32, ncclAvg, group->communicator, group->stream);
  });
}

int32_t GroupBroadcast(atoll_gpu_group* group, float* values, uint64_t elements, void* compute_stream) {
  return Begin(group, "a broadcast", compute_stream, [&] {
    return ncclBroadcast(values, values, elements, ncclFloat32, 0, group->communicator, group->stream);
  });
}

void GroupLeave(atoll_gpu_group* group) {
  const std::unique_ptr<atoll_gpu_group> owned(group);
  if (owned == nullptr) return;
  const WithDevice device(owned->device);
  // Aborts the communicator, because destroying it would wait for the other ranks.
  if (owned->communicator != nullptr) static_cast<void>(ncclCommAbort(owned->communicator));
  if (owned->newest != nullptr) static_cast<void>(cudaEventDestroy(owned->newest));
  if (owned->stream != nullptr) static_cast<void>(cudaStreamDestroy(owned->stream));
}

}  // namespace atl::gpu
