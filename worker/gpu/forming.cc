// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu/forming.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <new>

#include "worker/gpu/codec_kernels.h"
#include "worker/gpu/form_kernels.h"
#include "worker/gpu/runtime.h"

namespace atl::gpu {
namespace {

constexpr uint64_t kAligned = 256;  // bytes: where each part of the scratch begins

uint64_t Rounded(uint64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

uint64_t SumsOf(uint64_t elements) { return (elements + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK; }

// Offsets of the parts of the scratch. The losses overwrite the copy of the local parameters.
struct Scratch {
  uint64_t local = 0, outer = 0, residual = 0, encoded = 0, sums = 0, end = 0;
};

Scratch ScratchOf(uint64_t elements, uint64_t encoded_bytes, bool with_residual) {
  Scratch s;
  s.outer = s.local + Rounded(elements * sizeof(float));
  s.residual = s.outer + Rounded(elements * sizeof(float));
  s.encoded = s.residual + (with_residual ? Rounded(elements * sizeof(float)) : 0);
  s.sums = s.encoded + Rounded(encoded_bytes);
  s.end = s.sums + Rounded(SumsOf(elements) * sizeof(atoll_gpu_block_sums));
  return s;
}

int32_t CheckBytes(const atoll_gpu_forming& f) {
  uint64_t encoded = 0;
  if (f.elements == 0 || f.elements > kMostElements) return FailWith("a contribution has 1 to 2^48 elements");
  if (!EncodedBytes(f.codec, f.elements, &encoded)) return FailWith("the plugin does not know this codec");
  if (f.encoded_bytes == encoded) return 0;
  return FailWith("the bytes of a contribution are not what its elements take");
}

int32_t Check(const atoll_gpu_forming& f) {
  if (CheckBytes(f) != 0) return kFailed;
  if (f.scratch_bytes >= ScratchOf(f.elements, f.encoded_bytes, f.residual != nullptr).end) return 0;
  return FailWith("the scratch of a contribution is too small");
}

// Enqueues one contribution on the contribution stream; `compute` waits until the parameters are copied.
cudaError_t Enqueue(const atoll_gpu_context& context, const atoll_gpu_forming& f, cudaStream_t compute,
                    cudaEvent_t done) {
  auto* const base = static_cast<uint8_t*>(f.scratch);
  const Scratch s = ScratchOf(f.elements, f.encoded_bytes, f.residual != nullptr);
  const auto floats = [base](uint64_t offset) { return reinterpret_cast<float*>(base + offset); };
  auto* const sums = reinterpret_cast<atoll_gpu_block_sums*>(base + s.sums);
  const uint64_t bytes = f.elements * sizeof(float);
  const cudaStream_t on = context.forming;
  cudaError_t code = Order(compute, on);
  const auto then = [&](void* to, const void* from, uint64_t count, cudaMemcpyKind kind) {
    if (code == cudaSuccess) code = cudaMemcpyAsync(to, from, count, kind, on);
  };
  then(base + s.local, f.local, bytes, cudaMemcpyDeviceToDevice);
  if (code == cudaSuccess) code = Order(on, compute);
  then(base + s.outer, f.outer, bytes, cudaMemcpyHostToDevice);
  if (f.residual != nullptr) then(base + s.residual, f.residual, bytes, cudaMemcpyHostToDevice);
  if (code == cudaSuccess) {
    code = FormOnDevice(f.codec,
                        {floats(s.local), floats(s.outer), f.residual != nullptr ? floats(s.residual) : nullptr,
                         f.lost != nullptr ? floats(s.local) : nullptr, base + s.encoded, sums},
                        f.elements, on);
  }
  then(f.encoded, base + s.encoded, f.encoded_bytes, cudaMemcpyDeviceToHost);
  if (f.lost != nullptr) then(f.lost, base + s.local, bytes, cudaMemcpyDeviceToHost);
  then(f.sums, sums, SumsOf(f.elements) * sizeof(atoll_gpu_block_sums), cudaMemcpyDeviceToHost);
  if (code == cudaSuccess) code = cudaEventRecord(done, on);
  return code;
}

}  // namespace

int32_t MemoryAllocate(atoll_gpu_context* context, uint64_t bytes, void** out) {
  *out = nullptr;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code = cudaMalloc(out, bytes);
  return code == cudaSuccess ? 0 : Fail("cudaMalloc", code);
}

int32_t MemoryFree(atoll_gpu_context* context, void* memory) {
  const WithDevice device(context->device);
  const cudaError_t code = cudaFree(memory);
  return code == cudaSuccess ? 0 : Fail("cudaFree", code);
}

int32_t FormScratch(atoll_gpu_codec codec, uint64_t elements, int32_t with_residual, uint64_t* bytes) {
  uint64_t encoded = 0;
  if (elements > kMostElements) return FailWith("a contribution has 1 to 2^48 elements");
  if (!EncodedBytes(codec, elements, &encoded)) return FailWith("the plugin does not know this codec");
  *bytes = ScratchOf(elements, encoded, with_residual != 0).end;
  return 0;
}

int32_t Form(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream,
             atoll_gpu_event** done) {
  *done = nullptr;
  if (Check(*forming) != 0) return kFailed;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  std::unique_ptr<atoll_gpu_event> event(new (std::nothrow) atoll_gpu_event{context->device, nullptr});
  if (event == nullptr) return FailWith("out of host memory");
  cudaError_t code = NewEvent(&event->event);
  if (code == cudaSuccess) {
    code = Enqueue(*context, *forming, static_cast<cudaStream_t>(compute_stream), event->event);
  }
  if (code == cudaSuccess) {
    *done = event.release();
    return 0;
  }
  static_cast<void>(cudaStreamSynchronize(context->forming));  // afterwards the caller may use the memory again
  if (event->event != nullptr) static_cast<void>(cudaEventDestroy(event->event));
  return Fail("forming a contribution", code);
}

int32_t Merge(atoll_gpu_context* context, float own, float others, const float* outer, float* local, uint64_t elements,
              void* compute_stream, atoll_gpu_event** done) {
  *done = nullptr;
  if (elements > kMostElements) return FailWith("more elements than a merge takes at once");
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  std::unique_ptr<atoll_gpu_event> event(new (std::nothrow) atoll_gpu_event{context->device, nullptr});
  if (event == nullptr) return FailWith("out of host memory");
  const auto compute = static_cast<cudaStream_t>(compute_stream);
  cudaError_t code = NewEvent(&event->event);
  if (code == cudaSuccess) code = MergeOnDevice(own, others, outer, local, elements, compute);
  if (code == cudaSuccess) code = cudaEventRecord(event->event, compute);
  if (code == cudaSuccess) {
    *done = event.release();
    return 0;
  }
  static_cast<void>(cudaStreamSynchronize(compute));  // afterwards the caller may use the memory again
  if (event->event != nullptr) static_cast<void>(cudaEventDestroy(event->event));
  return Fail("merging", code);
}

int32_t FormPass(atoll_gpu_context* context, const atoll_gpu_forming* forming, void* compute_stream) {
  if (CheckBytes(*forming) != 0) return kFailed;
  const WithDevice device(context->device);
  if (device.result() != cudaSuccess) return Fail("cudaSetDevice", device.result());
  const cudaError_t code =
      FormOnDevice(forming->codec,
                   {forming->local, forming->outer, forming->residual, forming->lost, forming->encoded, forming->sums},
                   forming->elements, static_cast<cudaStream_t>(compute_stream));
  return code == cudaSuccess ? 0 : Fail("forming a contribution", code);
}

}  // namespace atl::gpu
