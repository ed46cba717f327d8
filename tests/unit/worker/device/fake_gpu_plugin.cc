// SPDX-License-Identifier: Apache-2.0
// The plugin's table over plain host memory. "Device" memory is any memory of the test. Copies
// happen when their event is waited for, which exposes a caller that does not wait. The table ends
// before the codecs, like an older plugin's.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "worker/device/gpu_abi.h"

struct atoll_gpu_context {
  int32_t index;
};

struct atoll_gpu_event {
  void* to;
  const void* from;
  uint64_t bytes;
};

namespace {

constexpr uint64_t kMostPinned = uint64_t{1} << 20;
thread_local std::string error;

int32_t Fail(const char* why) {
  error = why;
  return -1;
}

void CopyText(const std::string& text, char* out, uint64_t out_bytes) {
  if (out_bytes == 0) return;
  const size_t n = text.size() < out_bytes - 1 ? text.size() : static_cast<size_t>(out_bytes - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

int32_t DeviceCount(int32_t* count) {
  *count = 2;
  return 0;
}

int32_t DeviceOpen(int32_t index, atoll_gpu_context** out) {
  *out = new atoll_gpu_context{index};
  return 0;
}

void DeviceClose(atoll_gpu_context* context) { delete context; }

int32_t DeviceName(atoll_gpu_context* context, char* out, uint64_t out_bytes) {
  CopyText("Fake GPU " + std::to_string(context->index), out, out_bytes);
  return 0;
}

int32_t DeviceMemory(atoll_gpu_context* /*context*/, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = 1000;
  *total_bytes = 4000;
  return 0;
}

int32_t PinnedAllocate(atoll_gpu_context* /*context*/, uint64_t bytes, void** out) {
  if (bytes > kMostPinned) return Fail("the fake has only 1 MiB");
  *out = std::malloc(bytes);
  return 0;
}

int32_t PinnedFree(atoll_gpu_context* /*context*/, void* memory) {
  std::free(memory);
  return 0;
}

int32_t CopyToHost(atoll_gpu_context* /*context*/, void* host, const void* device, uint64_t bytes, void* compute_stream,
                   atoll_gpu_event** done) {
  if (compute_stream != nullptr) return Fail("the fake knows the default stream only");
  *done = new atoll_gpu_event{host, device, bytes};
  return 0;
}

int32_t CopyToDevice(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes, void* compute_stream,
                     atoll_gpu_event** done) {
  return CopyToHost(context, device, host, bytes, compute_stream, done);
}

int32_t EventWait(atoll_gpu_event* event) {
  std::memcpy(event->to, event->from, event->bytes);
  event->bytes = 0;
  return 0;
}

int32_t EventQuery(atoll_gpu_event* event, int32_t* done) {
  *done = event->bytes == 0 ? 1 : 0;
  return 0;
}

void EventRelease(atoll_gpu_event* event) { delete event; }

void LastError(char* out, uint64_t out_bytes) { CopyText(error, out, out_bytes); }

const atoll_gpu_table kTable = {ATOLL_GPU_ABI_REVISION,
                                offsetof(atoll_gpu_table, codec_encode),
                                DeviceCount,
                                DeviceOpen,
                                DeviceClose,
                                DeviceName,
                                DeviceMemory,
                                PinnedAllocate,
                                PinnedFree,
                                CopyToHost,
                                CopyToDevice,
                                EventWait,
                                EventQuery,
                                EventRelease,
                                LastError,
                                nullptr,
                                nullptr};

}  // namespace

const atoll_gpu_table* atoll_gpu_open(uint32_t abi) { return abi == ATOLL_GPU_ABI_REVISION ? &kTable : nullptr; }
