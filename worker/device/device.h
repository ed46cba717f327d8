// SPDX-License-Identifier: Apache-2.0
// Where the parameter arena lives, and how synchronisation sees a fragment of it from the host. Two forms: the CPU,
// where a window is the memory itself, and CUDA through the plugin's table (gpu_plugin.h), where it is a pinned copy.
// No LibTorch here: the arena's owner passes pointers and its compute stream.
#ifndef ATOLL_WORKER_DEVICE_DEVICE_H_
#define ATOLL_WORKER_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "worker/device/device_group.h"
#include "worker/device/former.h"
#include "worker/device/pass_graph.h"
#include "worker/device/pass_kernels.h"
#include "worker/device/step_kernels.h"

namespace atl {

enum class DeviceKind { kCpu, kCuda };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;                    // CUDA device number
  std::string name;                 // "cpu" or the GPU's name
  uint64_t memory_total_bytes = 0;  // of the device (of the machine for a CPU)
};

// A host view of one range of device memory. Thread rule: calls on one window must not overlap; different windows are
// independent, also on one device. Must not outlive its Device.
class HostWindow {
 public:
  virtual ~HostWindow() = default;
  // Begins to read the range as it is after all work enqueued so far on `compute_stream` (a cudaStream_t, ignored by
  // the CPU); work enqueued there afterwards waits for the copy, so that it may change the range. host() must not be
  // looked at until Wait returns.
  virtual absl::Status Snapshot(void* compute_stream) = 0;
  // Begins to write host() to the range; work enqueued on `compute_stream` afterwards sees it. host() must not be
  // changed until Wait returns.
  virtual absl::Status WriteBack(void* compute_stream) = 0;
  // Blocks until the last Snapshot or WriteBack is done; immediately when there is none. Internal on a device failure.
  // May be called in another thread than what began it.
  virtual absl::Status Wait() = 0;
  // True when Wait would not block.
  virtual absl::StatusOr<bool> Done() = 0;
  // The values: the device memory itself on a CPU (true for is_direct), pinned host memory else.
  virtual std::span<float> host() = 0;
  // True when host() is the range itself: a change is seen at once, and Snapshot and WriteBack copy nothing.
  virtual bool is_direct() const = 0;
};

// Small pieces of host memory on their way to the device, by two pinned buffers in turn: while one is copied the other
// is filled, and nobody waits for the device but for the copy before the last. Thread rule: calls must not overlap.
// Must not outlive its Device.
class HostFeed {
 public:
  virtual ~HostFeed() = default;
  // to := bytes, at most as many as the feed was opened for, after all work enqueued so far on `compute_stream`; work
  // enqueued there afterwards sees them. `bytes` may be changed when it returns; `to` is memory of the device.
  // InvalidArgument for more bytes, Internal on a device failure.
  virtual absl::Status Put(Bytes bytes, void* to, void* compute_stream) = 0;

 protected:
  static absl::Status TooLarge(uint64_t bytes, uint64_t most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a piece of ", bytes, " bytes for a feed that was opened for ", most_bytes));
  }
};

// Thread rule: calls may come from any thread and may overlap; what a device opens says its own rule.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<uint64_t> FreeMemoryBytes() = 0;
  // A window on `range`, which is memory of this device (not to be read through the span unless the device is a CPU)
  // and outlives the window. ResourceExhausted when no pinned memory of that size can be had.
  virtual absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) = 0;
  // For pieces of at most `most_bytes`. ResourceExhausted when no pinned memory of twice that size can be had.
  virtual absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t most_bytes) = 0;
  // A key for a group of devices. Unimplemented on a CPU, whose ranks exchange values over TCP, and with a plugin that
  // is older than groups.
  virtual absl::StatusOr<GroupKey> NewGroupKey() = 0;
  // Begins to meet the other ranks of the key's group: Poll says kBusy until all are there.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& key, uint32_t rank,
                                                                 uint32_t world) = 0;
  // For contributions formed by the device's kernels. Unimplemented on a CPU, whose memory the host forms them of, and
  // with a plugin that is older than they are; ResourceExhausted when there is not the memory.
  virtual absl::StatusOr<std::unique_ptr<Former>> OpenFormer(const FormerOptions& /*options*/) {
    return absl::UnimplementedError("this device has no kernels that form contributions");
  }
  // Of this device, which outlives it. Null on a CPU and with a plugin that is older than it is.
  virtual PassRecorder* pass_recorder() { return nullptr; }
  // Likewise.
  virtual PassKernels* pass_kernels() { return nullptr; }
  // Of this device, which outlives them. Null with a plugin that is older than they are, and on a CPU, whose kernels
  // run on LibTorch's threads (worker/train/cpu_step_kernels.h).
  virtual StepKernels* step_kernels() = 0;
};

// The CPU form. Memory figures come from sysconf.
std::unique_ptr<Device> OpenCpuDevice();

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_DEVICE_H_
