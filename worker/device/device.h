// SPDX-License-Identifier: Apache-2.0
// The memory of the parameter arena, and the host's view of a fragment of it for synchronisation.
// Two implementations: the CPU, where a window is the memory itself, and CUDA through the plugin's
// table (gpu_plugin.h), where it is a pinned copy. No LibTorch here: the owner of the arena passes
// pointers and its compute stream.
#ifndef ATOLL_WORKER_DEVICE_DEVICE_H_
#define ATOLL_WORKER_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "worker/device/device_encoder.h"
#include "worker/device/device_group.h"
#include "worker/device/pass_graph.h"
#include "worker/device/pass_kernels.h"
#include "worker/device/step_kernels.h"

namespace atl {

enum class DeviceKind { kCpu, kCuda };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;                    // CUDA device number
  std::string name;                 // "cpu" or the GPU's name
  uint64_t memory_total_bytes = 0;  // of the device (for a CPU, of the machine)
};

// A host view of one range of device memory. Thread rule: calls on one window must not overlap; different windows are
// independent, also on one device. Must not outlive its Device.
class HostWindow {
 public:
  virtual ~HostWindow() = default;
  // Begins to read the range as it is after all work enqueued so far on `compute_stream` (a
  // cudaStream_t, ignored by the CPU). Work enqueued there afterwards waits for the copy, so it may
  // change the range. Do not read host() until Wait returns.
  virtual absl::Status Snapshot(void* compute_stream) = 0;
  // Begins to write host() to the range; work enqueued on `compute_stream` afterwards sees it. Do
  // not change host() until Wait returns.
  virtual absl::Status WriteBack(void* compute_stream) = 0;
  // Blocks until the last Snapshot or WriteBack is done; returns at once if there is none. Internal
  // on a device failure. May be called on another thread than the one that began it.
  virtual absl::Status Wait() = 0;
  // True when Wait would not block.
  virtual absl::StatusOr<bool> Done() = 0;
  // The values: the device memory itself on a CPU (is_direct is true), otherwise pinned host memory.
  virtual std::span<float> host() = 0;
  // True if host() is the range itself: changes are visible at once, and Snapshot and WriteBack copy nothing.
  virtual bool is_direct() const = 0;
};

// Copies small pieces of host memory to the device through two pinned buffers in turn: one is
// filled while the other is copied, so a call waits at most for the copy before the last. Thread
// rule: calls must not overlap. Must not outlive its Device.
class HostFeed {
 public:
  virtual ~HostFeed() = default;
  // to := bytes, at most the size the feed was opened for, after all work enqueued so far on
  // `compute_stream`; work enqueued there afterwards sees them. `bytes` may be changed after the
  // call; `to` is device memory. InvalidArgument for more bytes, Internal on a device failure.
  virtual absl::Status Put(Bytes bytes, void* to, void* compute_stream) = 0;

 protected:
  static absl::Status TooLarge(uint64_t bytes, uint64_t most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a piece of ", bytes, " bytes for a feed that was opened for ", most_bytes));
  }
};

// Thread rule: calls may come from any thread and may overlap. Objects opened by a device have their own rules.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<uint64_t> FreeMemoryBytes() = 0;
  // A window on `range`, which is memory of this device (readable through the span only on a CPU)
  // and outlives the window. ResourceExhausted if there is not enough pinned memory.
  virtual absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) = 0;
  // A feed for pieces of at most `most_bytes`. ResourceExhausted without twice that size of pinned memory on a GPU.
  virtual absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t most_bytes) = 0;
  // A key for a group of devices. Unimplemented on a CPU, whose ranks exchange values over TCP, and
  // with a plugin without groups.
  virtual absl::StatusOr<GroupKey> NewGroupKey() = 0;
  // Begins to join the key's group: Poll returns kBusy until all ranks have joined. Unimplemented as NewGroupKey.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& key, uint32_t rank,
                                                                 uint32_t world) = 0;
  // An encoder that forms contributions with the device's kernels. Unimplemented on a CPU, where the host forms them,
  // and with a plugin without these kernels; ResourceExhausted if memory is short.
  virtual absl::StatusOr<std::unique_ptr<DeviceEncoder>> OpenEncoder(const DeviceEncoderOptions& /*options*/) {
    return absl::UnimplementedError("this device has no kernels that form contributions");
  }
  // The device's recorder of passes; the device outlives it. Null on a CPU and with a plugin without recordings.
  virtual PassRecorder* pass_recorder() { return nullptr; }
  // The device's kernels for passes; the device outlives them. Null on a CPU and with a plugin without them.
  virtual PassKernels* pass_kernels() { return nullptr; }
  // The device's kernels for the optimizer; the device outlives them. Null with a plugin without
  // them, and on a CPU: its kernels run on LibTorch's threads (worker/train/cpu_step_kernels.h).
  virtual StepKernels* step_kernels() = 0;
};

// The CPU implementation. Memory figures come from sysconf.
std::unique_ptr<Device> OpenCpuDevice();

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_DEVICE_H_
