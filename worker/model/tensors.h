// SPDX-License-Identifier: Apache-2.0
// What the rooms that link LibTorch share of it: the tensor behind an arena and the one guard around every call that
// may throw. Included by .cc files of worker/model and worker/train only, since ATen is slow to compile.
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

// The status that stands for an exception of LibTorch: ResourceExhausted when memory ran out, otherwise Internal; one
// line.
absl::Status StatusOfException(const char* doing, const std::exception& error);

// Runs `work`, which returns a Status or StatusOr, and turns an exception into the same type.
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
