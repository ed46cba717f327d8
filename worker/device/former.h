// SPDX-License-Identifier: Apache-2.0
// Contributions formed by a device's own kernels, beside training: outer copy and residual come from the host, bytes
// and losses go there, and only the fragment that is due lies on the device meanwhile. No LibTorch.
#ifndef ATOLL_WORKER_DEVICE_FORMER_H_
#define ATOLL_WORKER_DEVICE_FORMER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "worker/device/gpu_abi.h"

namespace atl {

// Who forms a worker's contributions.
enum class FormedBy { kHost, kDevice };

// Memory of the host that a device copies from and to by itself.
class PinnedFloats {
 public:
  virtual ~PinnedFloats() = default;
  virtual std::span<float> values() = 0;  // zeros at first
};

// Parts of PinnedFloats, as long as the fragment; they are untouched until Wait returns.
struct FormingPlaces {
  std::span<const float> outer{}, residual{};  // no residual: empty
  std::span<float> lost{};                     // what the codec loses goes here; empty: it is not wanted
};

// As Wait left them, until the next Begin: bytes as Encode makes them, sums of squares and largest magnitude of each
// block of ATOLL_GPU_SUM_BLOCK elements. A block whose largest is not finite makes the contribution void.
struct FormedParts {
  Bytes encoded{};
  std::span<const atoll_gpu_block_sums> blocks{};
};

// Something that a device does by itself. Its end is that of what is under way; does not outlive the Device.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;
  // Blocks until it is done. Internal on a device failure.
  virtual absl::Status Wait() = 0;
};

// One contribution at a time. Thread rule: calls must not overlap; Wait may come in another thread than Begin. Must not
// outlive its Device.
class Former {
 public:
  virtual ~Former() = default;
  virtual absl::StatusOr<std::unique_ptr<PinnedFloats>> OpenPinned(uint64_t elements) = 0;
  // Begins to form h = (outer - local) + residual, of `local` as it is after all work enqueued so far on
  // `compute_stream` (as in device.h); work enqueued there later may change it. `local` is memory of the device and not
  // longer than the former was opened for. Waits first for what was begun before. Internal, with nothing under way,
  // when the device refuses.
  virtual absl::Status Begin(std::span<const float> local, const FormingPlaces& places, void* compute_stream) = 0;
  // Blocks until what was begun is done. FailedPrecondition when nothing was, Internal on a device failure.
  virtual absl::StatusOr<FormedParts> Wait() = 0;
  // Nothing is being formed on return, and what was is of no account.
  virtual void Settle() = 0;
  // local := mix * local + (1 - mix) * outer, as vecmath::Merge does it, after all work enqueued so far on
  // `compute_stream`; work enqueued there later sees it. `local` is memory of the device; `outer` is a part of
  // PinnedFloats, untouched until the work that is returned is done. May overlap with the calls above. Unimplemented
  // with a plugin that is older than this; Internal, with nothing under way, when the device refuses.
  virtual absl::StatusOr<std::unique_ptr<DeviceWork>> BeginMerge(double mix, std::span<const float> outer,
                                                                 std::span<float> local, void* compute_stream) = 0;
};

struct FormerOptions {
  CodecKind codec = CodecKind::kFp32;
  uint64_t most_elements = 0;  // of a fragment
  bool residual = false;       // one may be given
};

// Over the plugin's table; both outlive it. Unimplemented with a plugin that is older than this, ResourceExhausted when
// the device or the host has not the memory.
absl::StatusOr<std::unique_ptr<Former>> OpenGpuFormer(const atoll_gpu_table& table, atoll_gpu_context* context,
                                                      const FormerOptions& options);

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_FORMER_H_
