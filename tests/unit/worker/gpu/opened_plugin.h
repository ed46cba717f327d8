// The plugin under test, opened once and before anything of LibTorch is called.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_

#include "worker/device/gpu_plugin.h"

namespace atl {

inline const GpuPlugin& Plugin() {
  static const GpuPlugin plugin = OpenGpuPlugin(ATOLL_GPU_PLUGIN);
  return plugin;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_OPENED_PLUGIN_H_
