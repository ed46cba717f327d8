// SPDX-License-Identifier: Apache-2.0
// Records the work that a pass enqueues on a device, and replays it: one launch instead of some thousand (a
// CUDA graph through the plugin's table). No LibTorch here; the recorded work is LibTorch's.
#ifndef ATOLL_WORKER_DEVICE_PASS_GRAPH_H_
#define ATOLL_WORKER_DEVICE_PASS_GRAPH_H_

#include <functional>
#include <memory>

#include "common/base/status.h"

namespace atl {

// Owned by the thread that recorded it. Must not outlive its Device.
class PassGraph {
 public:
  virtual ~PassGraph() = default;
  // Enqueues the recorded work on the default stream. The work uses the same memory addresses as in
  // the recording. Internal, with the device's error message, if the launch fails.
  virtual absl::Status Play() = 0;
};

// Thread rule: calls must not overlap.
class PassRecorder {
 public:
  virtual ~PassRecorder() = default;
  // Calls `pass` twice, on this thread: first it runs as a warm-up, on the recording stream; then its work is
  // recorded without running. `pass` must enqueue the same work each time and wait for nothing, and no other
  // thread may use LibTorch on the device meanwhile. Returns errors of `pass`, or Internal if the device cannot
  // record it, for example because it waits. Recording has ended on return.
  virtual absl::StatusOr<std::unique_ptr<PassGraph>> Record(const std::function<absl::Status()>& pass) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_PASS_GRAPH_H_
