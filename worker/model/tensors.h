// SPDX-License-Identifier: Apache-2.0
// Shared by the rooms that link LibTorch: the tensor of an arena, and the guard around calls that may throw.
// Included only by .cc files of worker/model and worker/train, because ATen is slow to compile.
#ifndef ATOLL_WORKER_MODEL_TENSORS_H_
#define ATOLL_WORKER_MODEL_TENSORS_H_

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "worker/model/arena.h"

namespace atl {

struct Arena::State {
  at::Tensor tensor;  // fp32, one dimension, contiguous, on the arena's device
};

inline const at::Tensor& TensorOf(const Arena& arena) { return arena.state().tensor; }
at::Device ToTorch(TensorDevice device);

// The status for a LibTorch exception: ResourceExhausted if memory is short, otherwise Internal; one line.
absl::Status StatusOfException(const char* doing, const std::exception& error);

// Runs `work`, which returns a Status or StatusOr, and turns an exception into a status of the same type.
template <typename Work>
auto Guarded(const char* doing, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::exception& error) {
    return StatusOfException(doing, error);
  }
}

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_TENSORS_H_
