// SPDX-License-Identifier: Apache-2.0
// The plugin under test, opened once, before any LibTorch call.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_

#include <filesystem>
#include <string>
#include <system_error>

#include "worker/device/gpu_plugin.h"

namespace atl {

// In the program's directory, wherever that is.
inline std::string PluginPath() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "libatoll_gpu.so";
}

inline const GpuPlugin& Plugin() {
  static const GpuPlugin plugin = OpenGpuPlugin(PluginPath());
  return plugin;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_
