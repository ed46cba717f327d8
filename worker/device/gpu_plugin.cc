// SPDX-License-Identifier: Apache-2.0
#include "worker/device/gpu_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace atl {
namespace {

std::string LoaderError(const char* otherwise) {
  const char* text = dlerror();
  return text != nullptr ? text : otherwise;
}

GpuPlugin Without(std::string reason, bool found = false) {
  GpuPlugin plugin;
  plugin.found = found;
  plugin.reason = std::move(reason);
  return plugin;
}

// Counts devices; sets the plugin's reason if it sees none.
GpuPlugin Count(const atoll_gpu_table* table) {
  GpuPlugin plugin;
  plugin.table = table;
  plugin.found = true;
  int32_t count = 0;
  const int32_t result = table->device_count(&count);
  if (result == 0 && count > 0) {
    plugin.device_count = count;
    return plugin;
  }
  std::array<char, 512> text{};
  table->last_error(text.data(), text.size());
  text.back() = '\0';
  plugin.reason = absl::StrCat("the GPU plugin sees no device: ", text[0] != '\0' ? text.data() : "no reason given");
  return plugin;
}

}  // namespace

GpuPlugin OpenGpuPlugin(const std::string& path, const std::string& driver) {
  if (path.empty()) return Without("no GPU plugin was named");
  if (path.find('/') != std::string::npos && access(path.c_str(), F_OK) != 0) {
    return Without(absl::StrCat("no GPU plugin is installed with this worker (", path, ")"));
  }
  if (!driver.empty() && dlopen(driver.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return Without(absl::StrCat("there is no GPU driver: ", LoaderError("dlopen failed"),
                                "; a container needs the driver of its host (docker run --gpus all)"),
                   true);
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return Without(absl::StrCat("no GPU plugin: ", LoaderError("dlopen failed")), true);
  void* const symbol = dlsym(library, ATOLL_GPU_OPEN_SYMBOL);
  if (symbol == nullptr) {
    return Without(
        absl::StrCat(path, " is not a GPU plugin: ", LoaderError("it does not export " ATOLL_GPU_OPEN_SYMBOL)), true);
  }
  const atoll_gpu_table* const table = reinterpret_cast<atoll_gpu_open_function>(symbol)(ATOLL_GPU_ABI_REVISION);
  if (table == nullptr || table->revision != ATOLL_GPU_ABI_REVISION || !ATOLL_GPU_HAS(table, last_error)) {
    return Without(absl::StrCat("the GPU plugin ", path, " does not speak revision ", ATOLL_GPU_ABI_REVISION,
                                " of the interface; install the plugin of this worker's version"),
                   true);
  }
  return Count(table);
}

bool HasNvidiaCard(const std::string& pci) {
  std::error_code error;
  const std::filesystem::directory_iterator devices(pci, error), end;
  return std::any_of(begin(devices), end, [](const auto& device) {
    std::string vendor, kind;
    std::ifstream(device.path() / "vendor") >> vendor;
    std::ifstream(device.path() / "class") >> kind;
    return vendor == "0x10de" && kind.starts_with("0x03");  // NVIDIA; display and 3D controllers
  });
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const GpuPlugin& plugin, const std::string& wanted) {
  if (wanted == "cpu" || (wanted == "auto" && plugin.device_count == 0)) return OpenCpuDevice();
  int32_t index = 0;
  const bool numbered = wanted.rfind("cuda:", 0) == 0;
  if (wanted != "auto" && wanted != "cuda" && !(numbered && absl::SimpleAtoi(wanted.substr(5), &index))) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", wanted, "' is not known; use auto, cpu, cuda or cuda:N with a number"));
  }
  if (plugin.device_count == 0) {
    return absl::UnavailableError(absl::StrCat(wanted == "cuda" ? "a GPU" : "device " + wanted, " was requested, but ",
                                               plugin.reason, "; use --device=cpu or auto"));
  }
  return OpenGpuDevice(plugin.table, index);
}

}  // namespace atl
