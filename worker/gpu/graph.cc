// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/graph.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "worker/gpu/runtime.h"

struct atoll_gpu_graph {
  explicit atoll_gpu_graph(int on)
      : device(on),
        recording(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(on))) {}
  int device;
  c10::cuda::CUDAStream recording;
  std::optional<c10::cuda::CUDAStream> before;  // the thread's current stream before the recording
  at::cuda::CUDAGraph graph;
  const c10::MempoolId_t pool = at::cuda::graph_pool_handle();  // pool of the memory allocated during the recording
  bool begun = false;
};

namespace atl::gpu {
namespace {

// Turns an exception into the thread's error message, for a LibTorch error without its backtrace.
template <typename Work>
int32_t Guarded(const char* what, const Work& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    static_cast<void>(cudaGetLastError());
    return FailWith(what, error.what_without_backtrace());
  } catch (const std::exception& error) {
    static_cast<void>(cudaGetLastError());
    return FailWith(what, error.what());
  }
}

c10::cuda::CUDAStream DefaultOf(const atoll_gpu_graph& graph) {
  return c10::cuda::getDefaultCUDAStream(static_cast<c10::DeviceIndex>(graph.device));
}

int32_t OrderStreams(cudaStream_t earlier, cudaStream_t later) {
  const cudaError_t code = Order(earlier, later);
  return code == cudaSuccess ? 0 : Fail("ordering a recording", code);
}

template <typename Work>
void Tried(const Work& work) {
  static_cast<void>(Guarded("", [&work]() -> int32_t {
    work();
    return 0;
  }));
}

// Cleans up if a recording failed before its end: LibTorch then leaves its allocators in recording mode, so that
// freed memory is not reused and the cache cannot be emptied. A recording that has ended needs no such cleaning.
void LeaveRecording(atoll_gpu_graph& graph) {
  bool ended = false;
  Tried([&] { ended = graph.graph.pool() == graph.pool; });
  if (ended) return;
  const auto device = static_cast<c10::DeviceIndex>(graph.device);
  Tried([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, graph.pool); });
  Tried([&] { c10::cuda::CUDACachingAllocator::releasePool(device, graph.pool); });
  Tried([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(graph.pool); });
  Tried([&] { at::getHostAllocator(at::kCUDA)->release_pool(graph.pool); });
}

// Runs `work`, and leaves the recording if it fails; the error message is that of `work`.
template <typename Work>
int32_t OrLeave(const char* what, atoll_gpu_graph& graph, const Work& work) {
  const int32_t result = Guarded(what, work);
  if (result == 0) return 0;
  const std::string why = NewestError();
  LeaveRecording(graph);
  return FailWith(why.c_str());
}

}  // namespace

int32_t GiveBackCache(const atoll_gpu_context* context) {
  return Guarded("giving memory back", [&]() -> int32_t {
    const WithDevice device(context->device);
    c10::cuda::CUDACachingAllocator::emptyCache();
    return 0;
  });
}

int32_t GraphOpen(atoll_gpu_context* context, atoll_gpu_graph** out) {
  *out = nullptr;
  return Guarded("opening a recording", [&]() -> int32_t {
    const WithDevice device(context->device);
    if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
    auto graph = std::make_unique<atoll_gpu_graph>(context->device);
    if (OrderStreams(DefaultOf(*graph).stream(), graph->recording.stream()) != 0) return kFailed;
    graph->before = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(context->device));
    c10::cuda::setCurrentCUDAStream(graph->recording);
    *out = graph.release();
    return 0;
  });
}

// Begins a recording in the relaxed mode, so that neither the work that backward passes enqueue from LibTorch's
// threads nor the copies of other threads invalidate it.
int32_t GraphBegin(atoll_gpu_graph* graph) {
  return OrLeave("starting a recording", *graph, [&]() -> int32_t {
    const WithDevice device(graph->device);
    // Frees the memory of earlier passes first, because the recording allocates the same amount again.
    const cudaError_t code = cudaStreamSynchronize(graph->recording.stream());
    if (code != cudaSuccess) return Fail("a pass before the recording", code);
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph->graph.capture_begin(graph->pool, cudaStreamCaptureModeRelaxed);
    graph->begun = true;
    return 0;
  });
}

int32_t GraphEnd(atoll_gpu_graph* graph) {
  if (!graph->begun) return FailWith("nothing is being recorded");
  graph->begun = false;
  return OrLeave("ending a recording", *graph, [&]() -> int32_t {
    const WithDevice device(graph->device);
    graph->graph.capture_end();
    return 0;
  });
}

int32_t GraphClose(atoll_gpu_graph* graph) {
  if (!graph->before.has_value()) return FailWith("the recording is closed already");
  return Guarded("closing a recording", [&]() -> int32_t {
    const WithDevice device(graph->device);
    c10::cuda::setCurrentCUDAStream(*graph->before);
    graph->before.reset();
    return OrderStreams(graph->recording.stream(), DefaultOf(*graph).stream());
  });
}

int32_t GraphPlay(atoll_gpu_graph* graph) {
  return Guarded("launching a recording", [&]() -> int32_t {
    const WithDevice device(graph->device);
    graph->graph.replay();
    return 0;
  });
}

void GraphFree(atoll_gpu_graph* graph) {
  const std::unique_ptr<atoll_gpu_graph> owned(graph);
  if (owned == nullptr) return;
  const WithDevice device(owned->device);
  if (owned->before.has_value()) static_cast<void>(GraphClose(owned.get()));
  // A replay may still read the graph's memory.
  static_cast<void>(cudaStreamSynchronize(DefaultOf(*owned).stream()));
}

}  // namespace atl::gpu
