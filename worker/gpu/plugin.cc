// SPDX-License-Identifier: Apache-2.0
// The CUDA plugin that implements worker/device/gpu_abi.h: devices, pinned memory, copies on their
// own stream, codecs, contributions (forming.cc), exchanges between devices (group.cc) and passes
// between products. Only recordings (graph.cc) and the code for LibTorch's streams and devices
// (runtime.cc) call LibTorch. The plugin links LibTorch's CUDA libraries, so opening it makes the
// GPU available to the worker. Only C types cross the boundary, and no exception leaves.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <new>

#include "worker/device/gpu_abi.h"
#include "worker/gpu/codec_kernels.h"
#include "worker/gpu/forming.h"
#include "worker/gpu/graph.h"
#include "worker/gpu/group.h"
#include "worker/gpu/pass_kernels.h"
#include "worker/gpu/runtime.h"
#include "worker/gpu/step_kernels.h"

namespace {

using atl::gpu::CopyText;
using atl::gpu::Fail;
using atl::gpu::FailWith;
using atl::gpu::kFailed;
using atl::gpu::NewEvent;
using atl::gpu::Order;
using atl::gpu::WithDevice;

constexpr char kLeastDriver[] = "580";  // of NVIDIA's drivers, the first for CUDA 13
constexpr int kLeastCapability = 8;     // major; worker/gpu/CMakeLists.txt compiles for it and later ones

// Returns whether the driver is older than CUDA's runtime library needs, and reports both versions.
bool IsDriverTooOld() {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime) != cudaSuccess) return false;
  if (driver == 0 || driver / 1000 >= runtime / 1000) return false;
  char text[256];
  std::snprintf(text, sizeof text,
                "NVIDIA's driver supports CUDA %d.%d, this worker needs %d.%d: install driver %s or newer",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, kLeastDriver);
  static_cast<void>(FailWith(text));
  return true;
}

int32_t DeviceCount(int32_t* count) {
  *count = 0;
  int found = 0;
  const cudaError_t code = cudaGetDeviceCount(&found);
  if (code == cudaSuccess && found > 0) {
    *count = found;
    return 0;
  }
  // A missing driver or device is a valid result, not a failure.
  if (code == cudaErrorInsufficientDriver && IsDriverTooOld()) return 0;
  Fail("cudaGetDeviceCount", code == cudaSuccess ? cudaErrorNoDevice : code);
  return 0;
}

int32_t DeviceOpen(int32_t index, atoll_gpu_context** out) {
  *out = nullptr;
  const WithDevice device(index);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  cudaDeviceProp properties;
  cudaError_t code = cudaGetDeviceProperties(&properties, index);
  if (code != cudaSuccess) return Fail("cudaGetDeviceProperties", code);
  if (properties.major < kLeastCapability) {
    char text[512];
    std::snprintf(text, sizeof text,
                  "GPU %d, %s, has compute capability %d.%d; this worker needs %d.0 or higher: use another card, or "
                  "--device cpu",
                  index, properties.name, properties.major, properties.minor, kLeastCapability);
    return FailWith(text);
  }
  std::unique_ptr<atoll_gpu_context> context(new (std::nothrow) atoll_gpu_context{index, nullptr, nullptr});
  if (context == nullptr) return FailWith("out of host memory");
  // The two streams do not wait for the default stream implicitly: only events define the order.
  code = cudaStreamCreateWithFlags(&context->copies, cudaStreamNonBlocking);
  if (code != cudaSuccess) return Fail("cudaStreamCreate", code);
  code = cudaStreamCreateWithFlags(&context->forming, cudaStreamNonBlocking);
  if (code != cudaSuccess) {
    static_cast<void>(cudaStreamDestroy(context->copies));
    return Fail("cudaStreamCreate", code);
  }
  *out = context.release();
  return 0;
}

void DeviceClose(atoll_gpu_context* context) {
  const std::unique_ptr<atoll_gpu_context> owned(context);
  if (owned == nullptr) return;
  const WithDevice device(owned->device);
  for (const cudaStream_t stream : {owned->copies, owned->forming}) {
    static_cast<void>(cudaStreamSynchronize(stream));
    static_cast<void>(cudaStreamDestroy(stream));
  }
}

int32_t DeviceName(atoll_gpu_context* context, char* out, uint64_t out_bytes) {
  cudaDeviceProp properties;
  const cudaError_t code = cudaGetDeviceProperties(&properties, context->device);
  if (code != cudaSuccess) return Fail("cudaGetDeviceProperties", code);
  CopyText(properties.name, out, out_bytes);
  return 0;
}

int32_t DeviceMemory(atoll_gpu_context* context, uint64_t* free_bytes, uint64_t* total_bytes) {
  if (atl::gpu::GiveBackCache(context) != 0) return kFailed;  // of an earlier job
  const WithDevice device(context->device);
  size_t free = 0, total = 0;
  const cudaError_t code = cudaMemGetInfo(&free, &total);
  if (code != cudaSuccess) return Fail("cudaMemGetInfo", code);
  *free_bytes = free;
  *total_bytes = total;
  return 0;
}

int32_t PinnedAllocate(atoll_gpu_context* context, uint64_t bytes, void** out) {
  *out = nullptr;
  const WithDevice device(context->device);
  const cudaError_t code = cudaHostAlloc(out, bytes, cudaHostAllocPortable);
  return code == cudaSuccess ? 0 : Fail("cudaHostAlloc", code);
}

int32_t PinnedFree(atoll_gpu_context* context, void* memory) {
  const WithDevice device(context->device);
  const cudaError_t code = cudaFreeHost(memory);
  return code == cudaSuccess ? 0 : Fail("cudaFreeHost", code);
}

// Enqueues a copy on the copy stream, after the work of `compute`, and an event at its end.
cudaError_t Copy(atoll_gpu_context* context, void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind,
                 cudaStream_t compute, cudaEvent_t* done) {
  cudaError_t code = Order(compute, context->copies);
  if (code == cudaSuccess) code = cudaMemcpyAsync(to, from, bytes, kind, context->copies);
  if (code == cudaSuccess) code = NewEvent(done);
  if (code == cudaSuccess) code = cudaEventRecord(*done, context->copies);
  return code;
}

int32_t CopyWithEvent(atoll_gpu_context* context, void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind,
                      void* compute_stream, atoll_gpu_event** out) {
  *out = nullptr;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  std::unique_ptr<atoll_gpu_event> event(new (std::nothrow) atoll_gpu_event{context->device, nullptr});
  if (event == nullptr) return FailWith("out of host memory");
  const auto compute = static_cast<cudaStream_t>(compute_stream);
  cudaError_t code = Copy(context, to, from, bytes, kind, compute, &event->event);
  if (code == cudaSuccess) code = cudaStreamWaitEvent(compute, event->event, 0);
  if (code == cudaSuccess) {
    *out = event.release();
    return 0;
  }
  // A copy may have begun: the caller may use the memory only after its end.
  static_cast<void>(cudaStreamSynchronize(context->copies));
  if (event->event != nullptr) static_cast<void>(cudaEventDestroy(event->event));
  return Fail("copy", code);
}

int32_t CopyToHost(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes, void* compute_stream,
                   atoll_gpu_event** done) {
  return CopyWithEvent(context, host, device, bytes, cudaMemcpyDeviceToHost, compute_stream, done);
}

int32_t CopyToDevice(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes, void* compute_stream,
                     atoll_gpu_event** done) {
  return CopyWithEvent(context, device, host, bytes, cudaMemcpyHostToDevice, compute_stream, done);
}

cudaError_t Feed(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t compute,
                 cudaEvent_t* done) {
  cudaError_t code = NewEvent(done);
  if (code == cudaSuccess) code = cudaMemcpyAsync(to, from, bytes, kind, compute);
  if (code == cudaSuccess) code = cudaEventRecord(*done, compute);
  return code;
}

// Copies on the compute stream itself, and returns the event at the end of the copy.
int32_t FeedWithEvent(atoll_gpu_context* context, void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind,
                      void* compute_stream, atoll_gpu_event** done) {
  *done = nullptr;
  const WithDevice with_device(context->device);
  if (with_device.result() != cudaSuccess) return Fail("cudaSetDevice", with_device.result());
  std::unique_ptr<atoll_gpu_event> event(new (std::nothrow) atoll_gpu_event{context->device, nullptr});
  if (event == nullptr) return FailWith("out of host memory");
  const auto compute = static_cast<cudaStream_t>(compute_stream);
  const cudaError_t code = Feed(to, from, bytes, kind, compute, &event->event);
  if (code == cudaSuccess) {
    *done = event.release();
    return 0;
  }
  static_cast<void>(cudaStreamSynchronize(compute));  // the copy may have begun
  if (event->event != nullptr) static_cast<void>(cudaEventDestroy(event->event));
  return Fail("copy", code);
}

int32_t FeedToDevice(atoll_gpu_context* context, void* device, const void* host, uint64_t bytes, void* compute_stream,
                     atoll_gpu_event** done) {
  return FeedWithEvent(context, device, host, bytes, cudaMemcpyHostToDevice, compute_stream, done);
}

int32_t FetchToHost(atoll_gpu_context* context, void* host, const void* device, uint64_t bytes, void* compute_stream,
                    atoll_gpu_event** done) {
  return FeedWithEvent(context, host, device, bytes, cudaMemcpyDeviceToHost, compute_stream, done);
}

int32_t EventWait(atoll_gpu_event* event) {
  const WithDevice device(event->device);
  const cudaError_t code = cudaEventSynchronize(event->event);
  return code == cudaSuccess ? 0 : Fail("cudaEventSynchronize", code);
}

int32_t EventQuery(atoll_gpu_event* event, int32_t* done) {
  const WithDevice device(event->device);
  const cudaError_t code = cudaEventQuery(event->event);
  *done = code == cudaSuccess ? 1 : 0;
  if (code == cudaSuccess) return 0;
  if (code != cudaErrorNotReady) return Fail("cudaEventQuery", code);
  static_cast<void>(cudaGetLastError());
  return 0;
}

void EventRelease(atoll_gpu_event* event) {
  const std::unique_ptr<atoll_gpu_event> owned(event);
  if (owned == nullptr) return;
  const WithDevice device(owned->device);
  static_cast<void>(cudaEventDestroy(owned->event));
}

// 0 if `encoded_bytes` is the encoded size of `elements` elements, otherwise kFailed.
int32_t CheckSizes(atoll_gpu_codec codec, uint64_t elements, uint64_t encoded_bytes) {
  uint64_t wanted = 0;
  if (elements > atl::gpu::kMostElements) return FailWith("more elements than a codec takes at once");
  if (!atl::gpu::EncodedBytes(codec, elements, &wanted)) return FailWith("the plugin does not know this codec");
  if (encoded_bytes == wanted) return 0;
  char text[160];
  std::snprintf(text, sizeof text, "%llu encoded bytes given, but %llu elements take %llu",
                static_cast<unsigned long long>(encoded_bytes), static_cast<unsigned long long>(elements),
                static_cast<unsigned long long>(wanted));
  return FailWith(text);
}

int32_t CodecEncode(atoll_gpu_context* context, atoll_gpu_codec codec, const float* values, uint64_t elements,
                    void* encoded, uint64_t encoded_bytes, void* compute_stream) {
  if (CheckSizes(codec, elements, encoded_bytes) != 0) return kFailed;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code =
      atl::gpu::EncodeOnDevice(codec, values, elements, encoded, static_cast<cudaStream_t>(compute_stream));
  return code == cudaSuccess ? 0 : Fail("encoding", code);
}

int32_t CodecDecode(atoll_gpu_context* context, atoll_gpu_codec codec, const void* encoded, uint64_t encoded_bytes,
                    float* values, uint64_t elements, void* compute_stream) {
  if (CheckSizes(codec, elements, encoded_bytes) != 0) return kFailed;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code =
      atl::gpu::DecodeOnDevice(codec, encoded, values, elements, static_cast<cudaStream_t>(compute_stream));
  return code == cudaSuccess ? 0 : Fail("decoding", code);
}

int32_t AdamwStep(atoll_gpu_context* context, const atoll_gpu_adamw* factors, float* parameters, float* gradients,
                  float* first, float* second, uint16_t* rounded, uint64_t elements, int32_t clear,
                  void* compute_stream) {
  if (elements > atl::gpu::kMostElements) return FailWith("more elements than an update takes at once");
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code = atl::gpu::AdamwOnDevice(*factors, {parameters, gradients, first, second, rounded}, elements,
                                                   clear != 0, static_cast<cudaStream_t>(compute_stream));
  return code == cudaSuccess ? 0 : Fail("updating parameters", code);
}

int32_t SumSquares(atoll_gpu_context* context, const float* values, uint64_t elements, float* sums,
                   void* compute_stream) {
  if (elements > atl::gpu::kMostElements) return FailWith("more elements than a norm takes at once");
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code =
      atl::gpu::SumSquaresOnDevice(values, elements, sums, static_cast<cudaStream_t>(compute_stream));
  return code == cudaSuccess ? 0 : Fail("summing squares", code);
}

// Enqueues a part of a pass on LibTorch's current stream of this thread. `what`: the part, for the error message.
template <typename Work>
int32_t InPass(const atoll_gpu_context* context, const char* what, cudaError_t (*enqueue)(const Work&, cudaStream_t),
               const Work* work) {
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  cudaStream_t stream = nullptr;
  cudaError_t code = atl::gpu::CurrentStream(context->device, &stream);
  if (code == cudaSuccess) code = enqueue(*work, stream);
  return code == cudaSuccess ? 0 : Fail(what, code);
}

int32_t Judge(atoll_gpu_context* context, const atoll_gpu_judging* judging) {
  return InPass(context, "judging scores", atl::gpu::JudgeOnDevice, judging);
}
int32_t Gate(atoll_gpu_context* context, const atoll_gpu_gating* gating) {
  return InPass(context, "gating", atl::gpu::GateOnDevice, gating);
}
int32_t GateBack(atoll_gpu_context* context, const atoll_gpu_gating* gating) {
  return InPass(context, "gating", atl::gpu::GateBackOnDevice, gating);
}
int32_t Turn(atoll_gpu_context* context, const atoll_gpu_turning* turning) {
  return InPass(context, "turning heads", atl::gpu::TurnOnDevice, turning);
}

void LastError(char* out, uint64_t out_bytes) { CopyText(atl::gpu::NewestError(), out, out_bytes); }

constexpr atoll_gpu_table kTable = {
    .revision = ATOLL_GPU_ABI_REVISION,
    .table_bytes = sizeof(atoll_gpu_table),
    .device_count = DeviceCount,
    .device_open = DeviceOpen,
    .device_close = DeviceClose,
    .device_name = DeviceName,
    .device_memory = DeviceMemory,
    .pinned_allocate = PinnedAllocate,
    .pinned_free = PinnedFree,
    .copy_to_host = CopyToHost,
    .copy_to_device = CopyToDevice,
    .event_wait = EventWait,
    .event_query = EventQuery,
    .event_release = EventRelease,
    .last_error = LastError,
    .codec_encode = CodecEncode,
    .codec_decode = CodecDecode,
    .group_key = atl::gpu::GroupKey,
    .group_join = atl::gpu::GroupJoin,
    .group_poll = atl::gpu::GroupPoll,
    .group_mean = atl::gpu::GroupMean,
    .group_broadcast = atl::gpu::GroupBroadcast,
    .group_leave = atl::gpu::GroupLeave,
    .adamw_step = AdamwStep,
    .sum_squares = SumSquares,
    .feed_to_device = FeedToDevice,
    .memory_allocate = atl::gpu::MemoryAllocate,
    .memory_free = atl::gpu::MemoryFree,
    .form_scratch = atl::gpu::FormScratch,
    .form = atl::gpu::Form,
    .form_pass = atl::gpu::FormPass,
    .fetch_to_host = FetchToHost,
    .merge = atl::gpu::Merge,
    .graph_open = atl::gpu::GraphOpen,
    .graph_begin = atl::gpu::GraphBegin,
    .graph_end = atl::gpu::GraphEnd,
    .graph_close = atl::gpu::GraphClose,
    .graph_play = atl::gpu::GraphPlay,
    .graph_free = atl::gpu::GraphFree,
    .judge = Judge,
    .gate = Gate,
    .gate_back = GateBack,
    .turn = Turn,
};

}  // namespace

extern "C" const atoll_gpu_table* atoll_gpu_open(uint32_t abi) {
  return abi == ATOLL_GPU_ABI_REVISION ? &kTable : nullptr;
}
