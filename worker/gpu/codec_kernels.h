// SPDX-License-Identifier: Apache-2.0
// The codecs on device memory. Bytes and decoded bits equal those of common/codec; the arithmetic
// is codec_math.h. Work is enqueued on `stream` of the current device without waiting: the caller
// must not touch the memory until the stream has finished it. `values` is aligned to 4 bytes,
// `encoded` needs no alignment; accesses are wide if values are aligned to 16 and encoded to 8
// bytes. The ranges must not overlap. Returns the launch's error. Thread rule: no state.
#ifndef ATOLL_WORKER_GPU_CODEC_KERNELS_H_
#define ATOLL_WORKER_GPU_CODEC_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/device/gpu_abi.h"

namespace atl::gpu {

// Largest number of elements per call, so that no size or index overflows.
constexpr uint64_t kMostElements = uint64_t{1} << 48;

// *bytes := the encoded size of `elements` elements, at most kMostElements. False for an unknown codec.
bool EncodedBytes(atoll_gpu_codec codec, uint64_t elements, uint64_t* bytes);

// Writes the encoding of `elements` values. cudaErrorInvalidValue for an unknown codec.
cudaError_t EncodeOnDevice(atoll_gpu_codec codec, const float* values, uint64_t elements, void* encoded,
                           cudaStream_t stream);

// Reads the encoding of `elements` elements and writes the values.
cudaError_t DecodeOnDevice(atoll_gpu_codec codec, const void* encoded, float* values, uint64_t elements,
                           cudaStream_t stream);

}  // namespace atl::gpu

#endif  // ATOLL_WORKER_GPU_CODEC_KERNELS_H_
