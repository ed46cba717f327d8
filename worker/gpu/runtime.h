// SPDX-License-Identifier: Apache-2.0
// What the units of the plugin share: failures as sentences, the current device, and order between streams. Private to
// worker/gpu.
#ifndef ATOLL_WORKER_GPU_RUNTIME_H_
#define ATOLL_WORKER_GPU_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

struct atoll_gpu_context {
  int device = 0;
  cudaStream_t copies = nullptr;
  cudaStream_t forming = nullptr;  // of contributions: no copy of a fragment waits behind one
};

struct atoll_gpu_event {
  int device = 0;
  cudaEvent_t event = nullptr;
};

namespace atl::gpu {

constexpr int32_t kFailed = -1;

// Each keeps the sentence for this thread and returns kFailed.
int32_t Fail(const char* what, cudaError_t code);
int32_t FailWith(const char* what);
int32_t FailWith(const char* what, const char* why);  // "what: why"
const char* NewestError();                            // of this thread; empty when there was none

// Cut to fit, NUL-terminated.
void CopyText(const char* text, char* out, uint64_t out_bytes);

// Makes a device current and puts the thread's own back as LibTorch does, which keeps its own idea of it: a device that
// this process does not use, 0 in a thread that has chosen none, is put back in LibTorch's idea alone. To make it
// current would open a context on it, some hundred megabytes of a card that is another rank's.
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
// Work put on `later` from now on waits for what is on `earlier`.
cudaError_t Order(cudaStream_t earlier, cudaStream_t later);

// LibTorch's in this thread.
cudaError_t CurrentStream(int device, cudaStream_t* out);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_RUNTIME_H_
