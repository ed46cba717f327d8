// SPDX-License-Identifier: Apache-2.0
// Loads the CUDA plugin, once, before anything looks for CUDA: main calls OpenGpuPlugin as soon as it has read its
// options (a later call finds LibTorch's hooks already cached). The program runs without it: the reason is a sentence
// for the start-up line.
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
  const atoll_gpu_table* table = nullptr;  // null: no plugin; lives until the process ends
  std::string reason;                      // why there is none, or "" when there is one
  int device_count = 0;                    // 0 also with a plugin that sees no device; then `reason` says why
  bool found = false;                      // its library is there, whether it can be used or not
};

// The library of NVIDIA's driver, which no program brings itself.
inline constexpr char kGpuDriver[] = "libcuda.so.1";

// dlopen(path, RTLD_NOW | RTLD_GLOBAL) and atoll_gpu_open. Never fails: the CPU form is used where device_count is 0.
// `driver` is loaded before: where it is not there, the plugin is not loaded either, since it brings LibTorch's CUDA
// libraries with it (some hundred megabytes of a process's memory) only to find no device. "": the plugin needs none.
// No library is closed. Call once, before any other thread or LibTorch call.
GpuPlugin OpenGpuPlugin(const std::string& path, const std::string& driver = "");

// The device "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the CPU). Unavailable, with the reason, when a GPU
// was asked for by name and there is none.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const GpuPlugin& plugin, const std::string& wanted);

// A CUDA device over the plugin's table. InvalidArgument when `index` is not below the device count.
absl::StatusOr<std::unique_ptr<Device>> OpenGpuDevice(const atoll_gpu_table* table, int index);

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_GPU_PLUGIN_H_
