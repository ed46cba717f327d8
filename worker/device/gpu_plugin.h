// SPDX-License-Identifier: Apache-2.0
// Loads the CUDA plugin. main calls OpenGpuPlugin at most once, after reading its options and before
// any other use of CUDA (LibTorch caches its hooks at first use). The program also runs without the
// plugin: the start-up line gives the reason.
#ifndef ATOLL_WORKER_DEVICE_GPU_PLUGIN_H_
#define ATOLL_WORKER_DEVICE_GPU_PLUGIN_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/device/device.h"
#include "worker/device/gpu_abi.h"

namespace atl {

struct GpuPlugin {
  const atoll_gpu_table* table = nullptr;  // null: no plugin; valid until the process ends
  std::string reason;                      // why no GPU can be used; empty if one can
  int device_count = 0;                    // 0 also if the plugin sees no device; `reason` then explains it
  bool found = false;                      // the library exists, usable or not
};

// The library of NVIDIA's driver, installed with the driver only.
inline constexpr char kGpuDriver[] = "libcuda.so.1";

// dlopen(path, RTLD_NOW | RTLD_GLOBAL) and atoll_gpu_open. Never fails: the CPU is used if device_count is 0.
// `driver` is loaded first. If it is missing, the plugin is not loaded either, because it would load LibTorch's
// CUDA libraries (some hundred megabytes of memory) only to find no device. "": no driver needed. Libraries are
// never closed. Call once, before any other thread or LibTorch call.
GpuPlugin OpenGpuPlugin(const std::string& path, const std::string& driver = "");

// Devices of the PCI bus, a folder each with the files `vendor` and `class` (Linux,
// Documentation/ABI/testing/sysfs-bus-pci).
inline constexpr char kPciDevices[] = "/sys/bus/pci/devices";

// Whether the machine has an NVIDIA card, usable or not. `pci`: kPciDevices.
bool HasNvidiaCard(const std::string& pci);

// Opens the device "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the CPU). Unavailable, with the reason, if
// a GPU was requested and there is none; InvalidArgument for another name or number.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const GpuPlugin& plugin, const std::string& wanted);

// A CUDA device over the plugin's table. InvalidArgument if `index` is not below the device count.
absl::StatusOr<std::unique_ptr<Device>> OpenGpuDevice(const atoll_gpu_table* table, int index);

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_GPU_PLUGIN_H_
