// SPDX-License-Identifier: Apache-2.0
// Forms contributions with a device's own kernels, in parallel with training. The host provides
// outer copy and residual, and receives encoded bytes and losses; only the due fragment is on the
// device meanwhile. No LibTorch.
#ifndef ATOLL_WORKER_DEVICE_DEVICE_ENCODER_H_
#define ATOLL_WORKER_DEVICE_DEVICE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "worker/device/gpu_abi.h"

namespace atl {

// Which side forms a worker's contributions.
enum class EncodedBy { kHost, kDevice };

// Host memory that a device reads and writes directly.
class PinnedFloats {
 public:
  virtual ~PinnedFloats() = default;
  virtual std::span<float> values() = 0;  // zeros at first
};

// Parts of PinnedFloats with the length of the fragment. Do not touch them until Wait returns.
struct FormingPlaces {
  std::span<const float> outer{}, residual{};  // no residual: empty
  std::span<float> lost{};                     // receives the loss of the codec; empty: not wanted
};

// Results of Wait, valid until the next Begin: bytes equal to those of Encode; sums of squares and
// largest magnitude of each block of ATOLL_GPU_SUM_BLOCK elements. A non-finite largest magnitude
// makes the contribution void.
struct FormedParts {
  Bytes encoded{};
  std::span<const atoll_gpu_block_sums> blocks{};
};

// An asynchronous operation of a device. The destructor waits until it is done. Must not outlive the Device.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;
  // Blocks until the operation is done. Internal on a device failure.
  virtual absl::Status Wait() = 0;
};

// Forms one contribution at a time. Thread rule: calls must not overlap; Wait may be called on
// another thread than Begin. Must not outlive its Device.
class DeviceEncoder {
 public:
  virtual ~DeviceEncoder() = default;
  virtual absl::StatusOr<std::unique_ptr<PinnedFloats>> OpenPinned(uint64_t elements) = 0;
  // Begins to form h = (outer - local) + residual, with `local` as it is after all work enqueued so
  // far on `compute_stream` (as in device.h); later work there may change it. `local` is device
  // memory, at most as long as the encoder was opened for. Waits first for an earlier Begin.
  // Internal, with nothing started, if the device refuses.
  virtual absl::Status Begin(std::span<const float> local, const FormingPlaces& places, void* compute_stream) = 0;
  // Blocks until the begun contribution is formed. FailedPrecondition if none was begun, Internal
  // on a device failure.
  virtual absl::StatusOr<FormedParts> Wait() = 0;
  // Waits for a contribution being formed and discards it.
  virtual void Settle() = 0;
  // local := mix * local + (1 - mix) * outer, as vecmath::Merge, after all work enqueued so far on
  // `compute_stream`; later work there sees it. `local` is device memory. `outer` is a part of PinnedFloats,
  // not to be touched until the returned work is done. May overlap with the calls above. Unimplemented with a
  // plugin without merges; Internal, with nothing started, if the device refuses.
  virtual absl::StatusOr<std::unique_ptr<DeviceWork>> BeginMerge(double mix, std::span<const float> outer,
                                                                 std::span<float> local, void* compute_stream) = 0;
};

struct DeviceEncoderOptions {
  CodecKind codec = CodecKind::kFp32;
  uint64_t most_elements = 0;  // of the largest fragment
  bool residual = false;       // residuals may be given
};

// Opens an encoder over the plugin's table; `table` and `context` outlive it. Unimplemented if the plugin forms no
// contributions, or not with this codec; ResourceExhausted if device or host memory is short.
absl::StatusOr<std::unique_ptr<DeviceEncoder>> OpenGpuEncoder(const atoll_gpu_table& table, atoll_gpu_context* context,
                                                              const DeviceEncoderOptions& options);

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_DEVICE_ENCODER_H_
