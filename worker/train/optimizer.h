// SPDX-License-Identifier: Apache-2.0
// Clipping and the optimizer's update over whole arenas: AdamW over the runs of tensors with and
// without weight decay, by LibTorch or by the device's own kernels, or plain SGD. Private to
// worker/train; no LibTorch type appears here.
#ifndef ATOLL_WORKER_TRAIN_OPTIMIZER_H_
#define ATOLL_WORKER_TRAIN_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/device/step_kernels.h"
#include "worker/model/arena.h"

namespace atl {

// The device's own kernels for AdamW, which outlive the optimizer.
struct OptimizerKernels {
  StepKernels* step = nullptr;  // null: LibTorch's
  std::span<uint16_t> rounded;  // receives the parameters rounded to bf16, as long as the arenas; may be empty
};

// Owned by one thread at a time. Arenas outlive it and are on one device.
class Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const InnerOptimizerSpec& spec, const ModelLayout& layout,
                                                           Arena& parameters, Arena& gradients,
                                                           const OptimizerKernels& kernels);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Euclidean norm of the gradients: fp32 within blocks of 4,096 elements, double over blocks in
  // arena order, so that it does not depend on the number of threads. Not finite if a gradient is
  // not, or if a block overflows fp32.
  absl::StatusOr<double> GradientNorm();
  // One update with gradients * factor. Requires finite gradients. Afterwards they are zero if
  // clears(), else the scaled ones; if rounds(), the rounded copy matches the parameters.
  absl::Status Apply(double learning_rate, double factor);
  bool clears() const;
  bool rounds() const;
  // Uses LibTorch's AdamW from now on.
  void DropKernels();

  Arena* first_moments() { return first_.get(); }  // nullptr with SGD
  Arena* second_moments() { return second_.get(); }
  uint64_t steps() const { return steps_; }
  void set_steps(uint64_t steps) { steps_ = steps; }

 private:
  struct State;
  Optimizer(const InnerOptimizerSpec& spec, std::unique_ptr<State> state);
  absl::Status ApplyAdamW(double learning_rate, double factor);
  absl::Status ApplyByKernels(double learning_rate, double factor);
  absl::Status ApplySgd(double learning_rate, double factor);

  const InnerOptimizerSpec spec_;
  std::unique_ptr<Arena> first_, second_;
  uint64_t steps_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_OPTIMIZER_H_
