// SPDX-License-Identifier: Apache-2.0
// The codecs on device memory. The bytes and decoded bits are those of common/codec; the arithmetic is codec_math.h.
// Everything is enqueued on `stream` of the current device and nothing is waited for: memory stays the caller's and
// untouched until the stream has come there. `values` is aligned to 4 bytes, `encoded` may lie anywhere; both are wide
// accesses where values are aligned to 16 and encoded to 8 bytes. The ranges must not overlap. Returns the launch's
// error. Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_CODEC_KERNELS_H_
#define ATOLL_WORKER_GPU_CODEC_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// Most elements of a call: no size or index overflows.
constexpr uint64_t kMostElements = uint64_t{1} << 48;

// Exact bytes of `elements` elements, which are at most kMostElements. False for a codec that is not known.
bool EncodedBytes(atoll_gpu_codec codec, uint64_t elements, uint64_t* bytes);

// Writes the bytes of `elements` values. cudaErrorInvalidValue for a codec that is not known.
cudaError_t EncodeOnDevice(atoll_gpu_codec codec, const float* values, uint64_t elements, void* encoded,
                           cudaStream_t stream);

// Reads the bytes of `elements` elements and writes the values.
cudaError_t DecodeOnDevice(atoll_gpu_codec codec, const void* encoded, float* values, uint64_t elements,
                           cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_CODEC_KERNELS_H_
