// SPDX-License-Identifier: Apache-2.0
// Checks and opens the local resources of a worker, before it connects.
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
#include "worker/replica/replicas.h"
#include "worker/session/job.h"

namespace atl {

// An error if --data-root is missing or unreadable. Creates --cache-dir, or returns why it is unusable.
absl::Status CheckFolders(const WorkerOptions& options, Files& files);

// Whether files can be written in --cache-dir, which must exist. A worker without it trains, but
// caches nothing.
absl::Status TryCache(const WorkerOptions& options, Files& files);

// Opens the device of --device. For a rank of an island, the GPU with its number among this machine's ranks, or the
// only GPU that its launcher shows it. FailedPrecondition with too few GPUs, and with --device auto on a machine that
// has an NVIDIA card but no usable GPU, so that it does not train on its CPU by mistake; otherwise errors of
// OpenDevice. `pci` lists the machine's devices.
absl::StatusOr<std::shared_ptr<Device>> OpenChosenDevice(const GpuPlugin& plugin, const WorkerOptions& options,
                                                         const std::string& pci = kPciDevices);

// Why the CPU is used with --device auto although the GPU plugin is installed: the plugin's reason,
// such as a missing driver or a plugin of another version. Empty otherwise.
std::string WhyOnCpu(const GpuPlugin& plugin, const WorkerOptions& options);

// The remedy for training on the CPU by mistake, logged with the reason from WhyOnCpu.
inline constexpr char kSayTheDevice[] = "give --device gpu to train on a GPU, --device cpu otherwise";

// Call after the error `why`. Unavailable, with both reasons, if the device is a GPU that no longer answers, as after
// an error of its memory or driver. Otherwise OK; also if `why` is ResourceExhausted.
absl::Status WhyDeviceLost(Device& device, const absl::Status& why);

// The threads for synchronisation on a machine with `cores` cores (0: unknown). In parallel with
// training on a CPU only one, because training uses all cores.
SyncThreads SyncThreadsOf(const WorkerOptions& options, DeviceKind kind, unsigned cores);

// The trainer's name for a device.
TensorDevice ToTensorDevice(const DeviceInfo& info);

// The memory that a job's training may take: the device's free memory, within the operator's limit (0: none).
absl::StatusOr<uint64_t> MemoryForTraining(Device& device, uint64_t limit_bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_PREPARATION_H_
