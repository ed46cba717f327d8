// SPDX-License-Identifier: Apache-2.0
// Opens the GPU plugin for a benchmark.
#ifndef ATOLL_TESTS_BENCH_PLUGIN_H_
#define ATOLL_TESTS_BENCH_PLUGIN_H_

#include <filesystem>
#include <system_error>

#include "worker/device/gpu_plugin.h"

namespace atl::bench {

// Call first in main. Same path as the worker's (worker/main.cc).
inline GpuPlugin OpenPlugin() {
  std::error_code none;
  return OpenGpuPlugin(std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "libatoll_gpu.so");
}

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_PLUGIN_H_
