// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/preparation.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_memory.h"
#include "worker/train/memory.h"

namespace atl {
namespace {

const char* DeviceName(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::kAuto: return "auto";
    case DeviceChoice::kCpu: return "cpu";
    case DeviceChoice::kGpu: return "cuda";
  }
  return "auto";
}

}  // namespace

absl::Status CheckFolders(const WorkerOptions& options, Files& files) {
  if (!options.data_root.empty() && !files.Exists(options.data_root)) {
    return absl::NotFoundError(absl::StrCat("--data-root ", options.data_root,
                                            " does not exist; create it, or omit the option to stream the data"));
  }
  if (!options.data_root.empty() && !files.List(options.data_root).ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--data-root ", options.data_root,
                     " is not a readable directory; name one, or omit the option to stream the data"));
  }
  const absl::Status made = files.MakeDirectory(options.cache_dir);
  return Annotate(made, absl::StrCat("--cache-dir ", options.cache_dir, " cannot be used"));
}

absl::Status TryCache(const WorkerOptions& options, Files& files) {
  const std::string probe = JoinPath(options.cache_dir, absl::StrCat("tried-by-", ::getpid()));
  const auto write = [&]() -> absl::Status {
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForAppend(probe));
    return file->Append(AsBytes(std::string("\n")));
  };
  const absl::Status written = write();
  files.Remove(probe).IgnoreError();
  return Annotate(written,
                  absl::StrCat("--cache-dir ", options.cache_dir,
                               " cannot be written, so neither streamed data nor the optimizer state is saved"));
}

absl::StatusOr<std::shared_ptr<Device>> OpenChosenDevice(const GpuPlugin& plugin, const WorkerOptions& options,
                                                         const std::string& pci) {
  std::string wanted = DeviceName(options.device);
  const auto gpus = static_cast<uint32_t>(plugin.device_count);
  const IslandOptions& island = options.island;
  if (island.size > 1 && options.device != DeviceChoice::kCpu && gpus > 0) {
    // A launcher may show each rank only its own GPU.
    const bool own = gpus == 1 && island.launched;
    if (!own && gpus < island.ranks_here) {
      return absl::FailedPreconditionError(
          absl::StrCat("there are ", gpus, " GPUs for the ", island.ranks_here,
                       " ranks of the island on this machine; give fewer ranks (--island-size), --device cpu, or, if a "
                       "launcher starts ranks on several machines, LOCAL_WORLD_SIZE"));
    }
    wanted = absl::StrCat("cuda:", own ? 0 : island.rank_here);
  }
  if (options.device == DeviceChoice::kAuto && gpus == 0 && HasNvidiaCard(pci)) {
    return absl::FailedPreconditionError(absl::StrCat("this machine has an NVIDIA card, but no GPU can be used: ",
                                                      plugin.reason, ". Give --device cpu to train on its CPU"));
  }
  ATOLL_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, OpenDevice(plugin, wanted));
  return device;
}

std::string WhyOnCpu(const GpuPlugin& plugin, const WorkerOptions& options) {
  const bool looked_for = options.device == DeviceChoice::kAuto && plugin.found;
  return looked_for && plugin.device_count == 0 ? plugin.reason : "";
}

absl::Status WhyDeviceLost(Device& device, const absl::Status& why) {
  if (device.info().kind != DeviceKind::kCuda || absl::IsResourceExhausted(why)) return absl::OkStatus();
  const absl::Status answers = device.FreeMemoryBytes().status();
  if (answers.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the GPU is lost: ", answers.message(), "; it was detected by: ",
                                             why.message(), ". See 'dmesg' for messages of its driver"));
}

SyncThreads SyncThreadsOf(const WorkerOptions& options, DeviceKind kind, unsigned cores) {
  constexpr unsigned kAtRest = 16, kBeside = 8;  // more threads gain no memory bandwidth
  const unsigned own = options.threads > 0 ? options.threads : std::max(1U, cores / options.island.ranks_here);
  return {.at_rest = std::min(own, kAtRest),
          .beside = kind == DeviceKind::kCpu ? 1 : std::min(std::max(1U, own / 2), kBeside)};
}

TensorDevice ToTensorDevice(const DeviceInfo& info) { return {info.kind == DeviceKind::kCuda, info.index}; }

absl::StatusOr<uint64_t> MemoryForTraining(Device& device, uint64_t limit_bytes) {
  const bool gpu = device.info().kind == DeviceKind::kCuda;
  ATOLL_ASSIGN_OR_RETURN(const uint64_t free_bytes, gpu ? device.FreeMemoryBytes() : AvailableHostMemory());
  return limit_bytes > 0 ? std::min(free_bytes, limit_bytes) : free_bytes;
}

}  // namespace atl
