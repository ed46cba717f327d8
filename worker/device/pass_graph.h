// SPDX-License-Identifier: Apache-2.0
// What a pass enqueues on a device, recorded once and played again: one launch in the place of some thousand (a CUDA
// graph behind the plugin's table). No LibTorch here; what is recorded is LibTorch's work.
#ifndef ATOLL_WORKER_DEVICE_PASS_GRAPH_H_
#define ATOLL_WORKER_DEVICE_PASS_GRAPH_H_

#include <functional>
#include <memory>

#include "common/base/status.h"

namespace atl {

// Owned by the thread that recorded it. Does not outlive its Device.
class PassGraph {
 public:
  virtual ~PassGraph() = default;
  // Enqueues on the default stream what was recorded, which reads and writes the memory that it did then. Internal,
  // with the device's own words, when the launch fails.
  virtual absl::Status Play() = 0;
};

// Thread rule: calls must not overlap.
class PassRecorder {
 public:
  virtual ~PassRecorder() = default;
  // Calls `pass` twice, in this thread: first it runs, on the stream of recording, as a warm-up; then what it enqueues
  // is recorded and does not run. It enqueues the same each time, waits for nothing, and no other thread uses LibTorch
  // on the device meanwhile. Errors are those of `pass`, or Internal where the device cannot record it: a pass that
  // waits, say. Then nothing is being recorded any more.
  virtual absl::StatusOr<std::unique_ptr<PassGraph>> Record(const std::function<absl::Status()>& pass) = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DEVICE_PASS_GRAPH_H_
