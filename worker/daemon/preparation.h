// SPDX-License-Identifier: Apache-2.0
// What a worker needs of its own machine, looked at before anything is connected.
#ifndef ATOLL_WORKER_DAEMON_PREPARATION_H_
#define ATOLL_WORKER_DAEMON_PREPARATION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/config/options.h"
#include "worker/device/gpu_plugin.h"
#include "worker/model/arena.h"
#include "worker/session/job.h"

namespace atl {

// NotFound when --data-root is not there; makes --cache-dir, or says why it cannot be used.
absl::Status CheckFolders(const WorkerOptions& options, Files& files);

// Whether files can be written in --cache-dir, which is there. A worker trains without, and keeps nothing.
absl::Status TryCache(const WorkerOptions& options, Files& files);

// The device of --device; of an island's rank the GPU that has its number among the ranks of this machine.
// FailedPrecondition when there are fewer GPUs than that, otherwise the errors of OpenDevice (gpu_plugin.h).
absl::StatusOr<std::shared_ptr<Device>> OpenChosenDevice(const GpuPlugin& plugin, const WorkerOptions& options);

// Why the CPU was taken where nobody asked for it (--device auto) and the GPU plugin lies beside the worker: its
// reason, as of a driver that is gone, or a plugin of another version. Empty otherwise.
std::string WhyOnCpu(const GpuPlugin& plugin, const WorkerOptions& options);

// What to do about that.
inline constexpr char kSayTheDevice[] = "say --device gpu where it is to train on one, --device cpu where not";

// OK where the device is no GPU, or one that answers. Unavailable, with both reasons, where it answers nothing any
// more, as after an error of its memory or driver, which `why` told first.
absl::Status WhyDeviceLost(Device& device, const absl::Status& why);

// On a machine of so many cores (0: unknown). Beside training on a CPU there is none to spare: training has them all.
SyncThreads SyncThreadsOf(const WorkerOptions& options, DeviceKind kind, unsigned cores);

// The trainer's name for a device.
TensorDevice ToTensorDevice(const DeviceInfo& info);

// Bytes that a job's training may take: what the device has free, and no more than the operator allows (0: no limit).
absl::StatusOr<uint64_t> MemoryForTraining(Device& device, uint64_t limit_bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_PREPARATION_H_
