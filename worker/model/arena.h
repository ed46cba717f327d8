// SPDX-License-Identifier: Apache-2.0
// One contiguous fp32 buffer in the layout of ModelLayout: parameters, gradients or a moment of the optimizer,
// in host memory or on a GPU. A fragment is a range of it. No LibTorch type appears in this header.
#ifndef ATOLL_WORKER_MODEL_ARENA_H_
#define ATOLL_WORKER_MODEL_ARENA_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"

namespace atl {

// The location of tensors. A GPU requires that the CUDA plugin was opened first (worker/device/gpu_abi.h).
struct TensorDevice {
  bool gpu = false;
  int32_t index = 0;  // of the GPU, from 0
  friend bool operator==(const TensorDevice&, const TensorDevice&) = default;
};

// Elements [offset, offset + elements) of an arena.
struct ArenaRange {
  uint64_t offset = 0, elements = 0;
};

// Owned by one thread at a time.
class Arena {
 public:
  // All zeros. ResourceExhausted if there is not enough memory (a host may also overcommit: see
  // train/memory.h); FailedPrecondition if the GPU is missing.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(uint64_t elements, TensorDevice device);
  // An arena over the caller's memory, which outlives it; nothing is copied.
  static std::unique_ptr<Arena> Wrap(std::span<float> memory);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint64_t elements() const { return memory_.size(); }
  TensorDevice device() const { return device_; }
  // The buffer itself if it is in host memory; empty on a GPU.
  std::span<float> host() { return device_.gpu ? std::span<float>{} : memory_; }
  std::span<const float> host() const { return device_.gpu ? std::span<const float>{} : memory_; }
  // The buffer in any memory, for windows of worker/device: not readable through the span on a GPU.
  std::span<float> memory() const { return memory_; }

  // Copies elements [offset, offset + size) to or from host memory, wherever the arena is; done on return.
  absl::Status Read(uint64_t offset, std::span<float> out) const;
  absl::Status Write(uint64_t offset, std::span<const float> values);
  absl::Status Zero();
  // 32 bits that differ, except by chance, if two contents differ. Compare only between devices of one kind.
  absl::StatusOr<uint32_t> Fingerprint() const;

  // The tensor of the arena: see worker/model/tensors.h, for the rooms that link LibTorch.
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
