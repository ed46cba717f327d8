// SPDX-License-Identifier: Apache-2.0
// Shared by the units of the plugin: error messages, the current device, and order between streams.
// Private to worker/gpu.
#ifndef ATOLL_WORKER_GPU_RUNTIME_H_
#define ATOLL_WORKER_GPU_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

struct atoll_gpu_context {
  int device = 0;
  cudaStream_t copies = nullptr;
  cudaStream_t forming = nullptr;  // forms contributions; separate, so that no copy of a fragment waits for one
};

struct atoll_gpu_event {
  int device = 0;
  cudaEvent_t event = nullptr;
};

namespace atl::gpu {

constexpr int32_t kFailed = -1;

// Each stores the error message for this thread and returns kFailed.
int32_t Fail(const char* what, cudaError_t code);
int32_t FailWith(const char* what);
int32_t FailWith(const char* what, const char* why);  // "what: why"
const char* NewestError();                            // of this thread; empty if there was none

// Cut to fit, NUL-terminated.
void CopyText(const char* text, char* out, uint64_t out_bytes);

// Makes a device current and restores the thread's previous one the way LibTorch does, which tracks
// the device itself: a device not used by this process, 0 in a thread that has chosen none, is
// restored only in LibTorch's record. Making it current would open a context on it, which takes
// some hundred megabytes of a GPU that belongs to another rank.
class WithDevice {
 public:
  explicit WithDevice(int device);
  ~WithDevice();
  WithDevice(const WithDevice&) = delete;
  WithDevice& operator=(const WithDevice&) = delete;
  cudaError_t result() const { return result_; }

 private:
  int8_t before_ = 0;
  cudaError_t result_ = cudaSuccess;
};

cudaError_t NewEvent(cudaEvent_t* out);
// Work enqueued on `later` from now on waits for the work on `earlier`.
cudaError_t Order(cudaStream_t earlier, cudaStream_t later);

// LibTorch's current stream in this thread.
cudaError_t CurrentStream(int device, cudaStream_t* out);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_RUNTIME_H_
