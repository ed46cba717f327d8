// SPDX-License-Identifier: Apache-2.0
// The inner step of one worker: micro-batches -> gradient arena -> clipping -> AdamW over spans of the arena.
// It owns the arenas, but no network, job clock or data: the caller passes tokens and the learning rate.
//
//   loss = mean over the step's targets of -log p(target)
//   g <- g * min(1, gradient_clip / (|g| + 1e-6))                       global norm over the whole arena
//   AdamW (Loshchilov and Hutter 2019, algorithm 2): p <- p - lr wd p; m, v; p <- p - lr m^ / (sqrt(v^) + eps)
// Weight decay is decoupled for SGD too (p <- p - lr wd p - lr g) and skips norms.
#ifndef ATOLL_WORKER_TRAIN_TRAINER_H_
#define ATOLL_WORKER_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/device/island.h"
#include "worker/device/pass_graph.h"
#include "worker/device/pass_kernels.h"
#include "worker/device/step_kernels.h"
#include "worker/model/arena.h"
#include "worker/model/model.h"
#include "worker/train/memory.h"

namespace atl {

struct TrainerOptions {
  TensorDevice device;
  int32_t threads = 0;                      // of LibTorch in this process; 0: unchanged
  std::optional<uint32_t> end_of_text;      // of the job's tokenizer
  std::optional<uint64_t> available_bytes;  // free on the device; required for a GPU; CPU default: read from the system
  Island* island = nullptr;  // outlives the trainer, which takes its rank's share of each step; null: no island
  // Kernels of the device; outlive the trainer. Used for AdamW if they agree with LibTorch's on this device. In
  // an island they must agree on all ranks' devices, because all ranks must compute the same.
  StepKernels* kernels = nullptr;
  HostFeed* feed = nullptr;  // of the device, for a step's tokens: as in ModelOptions
  // Kernels of the device; outlive the trainer. Used if they agree with LibTorch's operators on
  // this device. Ranks of an island may differ here, because they exchange only the gradients.
  PassKernels* pass_kernels = nullptr;
  // Recorder of the device; outlives the trainer. A step's passes are recorded after some launched steps, and
  // replayed if the results agree with those of launches (gradient_print.h). Not in an island, which exchanges
  // gradients during the pass. Null: passes are launched.
  PassRecorder* recorder = nullptr;
  bool bf16_products = false;  // for tests, as in ModelOptions; also the next
  bool as_on_gpu = false;
};

struct StepReport {
  bool applied = false;  // false: loss or gradient not finite; parameters and moments are unchanged, bit for bit
  double loss = 0;       // mean over targets, nats
  double grad_norm = 0;  // before clipping
  uint64_t tokens = 0;   // targets
  uint32_t micro_batch = 0;
  Duration passes{};  // forward and backward
  Duration update{};  // clipping and optimizer
};

// Owned by one thread at a time: the train thread. Calls block; a pass cannot be interrupted.
class Trainer {
 public:
  // `spec` is resolved and `layout` made from spec.model. Parameters are zero until written.
  // ResourceExhausted, with the summands, if the model does not fit into memory; InvalidArgument if
  // separate_documents is set without an end-of-text token. `clock` outlives the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const JobSpec& spec, const ModelLayout& layout,
                                                         const TrainerOptions& options, const Clock& clock);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // One inner step on `batch` (length T + 1). A step that runs out of memory is repeated with half the micro-batch,
  // unless the job fixes it; ResourceExhausted if one sample is too much. If the passes fail, parameters and moments
  // are unchanged; if the update fails, they may not be. The micro-batch changes the result only by rounding.
  absl::StatusOr<StepReport> Step(const TokenBatch& batch, double learning_rate);
  // As Step, on every rank of the island at once. `share` is this rank's part of a batch with `targets` in all,
  // and may be empty. Loss, norm and tokens are the island's, gradients are weighted by targets, and the ranks
  // stay equal bit for bit. A gradient differs from that of one process with the whole batch by rounding, as
  // with another micro-batch: in fp32 at most 2e-5 of it and 1e-7; in bf16 at most 2^-8 of its tensor's norm,
  // or 1e-6 of it with the same micro-batch and the same kernels on all ranks. Unavailable if a rank is lost.
  // After any error on this rank alone the caller must break the island: the other ranks wait for this one.
  absl::StatusOr<StepReport> StepShare(const TokenBatch& share, uint64_t targets, double learning_rate);

  // The thread that owns the trainer may change parameters between steps: in place through parameters().host()
  // on a CPU, through a window of worker/device over parameters().memory() on the compute stream, or with Read
  // and Write. After the first step, call ParametersChanged for each range.
  Arena& parameters();
  void ParametersChanged(const ArenaRange& range);
  // The stream of LibTorch's work, for worker/device: the default stream, hence null, on every device.
  void* compute_stream() const { return nullptr; }
  // The gradients after the last step, for tests and diagnostics: scaled by the clipping, if it was applied, or zero
  // if the device's kernels cleared them.
  Arena& gradients();
  // The optimizer's memory, to be saved and restored with optimizer_steps(); nullptr with SGD.
  Arena* first_moments();
  Arena* second_moments();
  // Why LibTorch's AdamW is used although kernels were given; OK if it is not, or none were given.
  // In an island the first step may set it, because the ranks agree then.
  const absl::Status& kernels_refused() const;
  // options.pass_kernels if they are used, else null. pass_kernels_refused(): the reason why they are not used; OK if
  // they are, or if none were given.
  PassKernels* pass_kernels() const;
  const absl::Status& pass_kernels_refused() const;
  // Why passes are launched although a recorder was given; OK if they are not, or none was given.
  const absl::Status& recording_refused() const;
  bool plays() const;  // whether a proved recording of the passes is replayed
  // The steps for the bias correction: those of this optimizer, not of the job.
  uint64_t optimizer_steps() const;
  void set_optimizer_steps(uint64_t steps);
  // The initial state of a joiner: zero moments, zero steps.
  absl::Status ResetOptimizer();

  uint32_t micro_batch() const;
  const TrainingMemory& memory() const;  // of the chosen micro-batch

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Computes losses with parameters that are not being trained: the outer copy, or a checkpoint.
// Owned by one thread at a time.
class Evaluator {
 public:
  // On a CPU, `parameters` (a whole arena in `layout`) is read in place: it must outlive the evaluator and not change
  // during Evaluate. With bf16, only the first pass reads it, for a rounded copy. On a GPU, Create copies it.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const ModelSpec& spec, const ModelLayout& layout,
                                                           const ModelOptions& options, TensorDevice device,
                                                           std::span<float> parameters);
  // Nats over all targets of the batch (length T + 1), in passes of at most 4,096 tokens or one sample.
  absl::StatusOr<LossSum> Evaluate(const TokenBatch& batch);
  Model& model() { return *model_; }

 private:
  Evaluator() = default;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Model> model_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_TRAINER_H_
