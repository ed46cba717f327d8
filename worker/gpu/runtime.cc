// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/runtime.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <type_traits>

namespace atl::gpu {
namespace {

thread_local char newest_error[512] = "";

static_assert(std::is_same_v<c10::DeviceIndex, int8_t>, "WithDevice keeps one");

// Runs `call`. Some device functions of LibTorch throw if CUDA is unusable: then cudaErrorUnknown.
template <typename Call>
cudaError_t Told(const Call& call) {
  try {
    return call();
  } catch (const std::exception&) {
    return cudaErrorUnknown;
  }
}

}  // namespace

WithDevice::WithDevice(int device)
    : result_(Told([&] {
        const cudaError_t code = c10::cuda::GetDevice(&before_);
        return code == cudaSuccess ? c10::cuda::SetDevice(static_cast<c10::DeviceIndex>(device)) : code;
      })) {}

WithDevice::~WithDevice() {
  if (result_ == cudaSuccess) static_cast<void>(Told([&] { return c10::cuda::MaybeSetDevice(before_); }));
}

int32_t Fail(const char* what, cudaError_t code) {
  static_cast<void>(cudaGetLastError());  // clears the error for later calls
  return FailWith(what, cudaGetErrorString(code));
}

int32_t FailWith(const char* what) {
  std::snprintf(newest_error, sizeof newest_error, "%s", what);
  return kFailed;
}

int32_t FailWith(const char* what, const char* why) {
  std::snprintf(newest_error, sizeof newest_error, "%s: %s", what, why);
  return kFailed;
}

const char* NewestError() { return newest_error; }

void CopyText(const char* text, char* out, uint64_t out_bytes) {
  if (out == nullptr || out_bytes == 0) return;
  const uint64_t length = std::min<uint64_t>(std::strlen(text), out_bytes - 1);
  std::memcpy(out, text, length);
  out[length] = '\0';
}

cudaError_t CurrentStream(int device, cudaStream_t* out) {
  return Told([&] {
    *out = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
    return cudaSuccess;
  });
}

cudaError_t NewEvent(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDisableTiming); }

cudaError_t Order(cudaStream_t earlier, cudaStream_t later) {
  cudaEvent_t ready = nullptr;
  cudaError_t code = NewEvent(&ready);
  if (code != cudaSuccess) return code;
  code = cudaEventRecord(ready, earlier);
  if (code == cudaSuccess) code = cudaStreamWaitEvent(later, ready, 0);
  static_cast<void>(cudaEventDestroy(ready));  // freed once it has occurred
  return code;
}

}  // namespace atl::gpu
