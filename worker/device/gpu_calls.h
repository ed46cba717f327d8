// SPDX-License-Identifier: Apache-2.0
// Helpers for calls of the plugin's table. Private to worker/device.
#ifndef ATOLL_WORKER_DEVICE_GPU_CALLS_H_
#define ATOLL_WORKER_DEVICE_GPU_CALLS_H_

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/device/gpu_abi.h"

namespace atl {

// The device's error message for the calling thread's last failure.
inline std::string LastError(const atoll_gpu_table& table) {
  std::array<char, 512> text{};
  table.last_error(text.data(), text.size());
  text.back() = '\0';
  return std::string(text.data());
}

// Internal: `what` failed, with the device's error message.
inline absl::Status Failed(const atoll_gpu_table& table, const char* what) {
  return absl::InternalError(absl::StrCat(what, " failed on the GPU: ", LastError(table)));
}

// Blocks until the event has occurred, and releases it. Returns at once without an event. `what`:
// the awaited operation.
inline absl::Status AwaitEvent(const atoll_gpu_table& table, atoll_gpu_event*& held, const char* what) {
  atoll_gpu_event* const event = std::exchange(held, nullptr);
  if (event == nullptr) return absl::OkStatus();
  const int32_t result = table.event_wait(event);
  absl::Status status = result == 0 ? absl::OkStatus() : Failed(table, what);
  table.event_release(event);
  return status;
}

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_GPU_CALLS_H_
