// SPDX-License-Identifier: Apache-2.0
// One contiguous fp32 buffer in the layout of ModelLayout: parameters, gradients or a moment of the optimizer. It lies
// in host memory or on a GPU; either way a fragment is a range of it. LibTorch stays behind this header.
#ifndef ATOLL_WORKER_MODEL_ARENA_H_
#define ATOLL_WORKER_MODEL_ARENA_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"

namespace atl {

// Where tensors live. A GPU needs the CUDA plugin to have been opened first (worker/device/gpu_abi.h).
struct TensorDevice {
  bool gpu = false;
  int32_t index = 0;  // of the GPU, from 0
  friend bool operator==(const TensorDevice&, const TensorDevice&) = default;
};

// Elements [offset, offset + elements) of one.
struct ArenaRange {
  uint64_t offset = 0, elements = 0;
};

// Owned by one thread at a time.
class Arena {
 public:
  // All zeros. ResourceExhausted when the memory is not there (a host may also overcommit: see train/memory.h);
  // FailedPrecondition when the GPU is not there.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(uint64_t elements, TensorDevice device);
  // An arena over memory of the caller's, which outlives it; nothing is copied.
  static std::unique_ptr<Arena> Wrap(std::span<float> memory);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint64_t elements() const { return memory_.size(); }
  TensorDevice device() const { return device_; }
  // The buffer itself when it lies in host memory; empty on a GPU.
  std::span<float> host() { return device_.gpu ? std::span<float>{} : memory_; }
  std::span<const float> host() const { return device_.gpu ? std::span<const float>{} : memory_; }
  // The buffer wherever it lies, for windows of worker/device: not to be read through the span on a GPU.
  std::span<float> memory() const { return memory_; }

  // Elements [offset, offset + size) to or from host memory, wherever the arena lies; done on return.
  absl::Status Read(uint64_t offset, std::span<float> out) const;
  absl::Status Write(uint64_t offset, std::span<const float> values);
  absl::Status Zero();
  // 32 bits that differ, but by chance, where two contents differ in one; compared between devices of one kind only.
  absl::StatusOr<uint32_t> Fingerprint() const;

  // The tensor behind it: worker/model/tensors.h, for the rooms that link LibTorch.
  struct State;
  State& state() const { return *state_; }

 private:
  Arena(TensorDevice device, std::unique_ptr<State> state, std::span<float> memory);
  TensorDevice device_;
  std::span<float> memory_;
  std::unique_ptr<State> state_;
};

// Threads of LibTorch's CPU operators in this process; at least 1.
void SetTensorThreads(int32_t threads);

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_ARENA_H_
