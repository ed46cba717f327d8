// SPDX-License-Identifier: Apache-2.0
// Computes the memory of training before it is allocated: a host overcommits and then kills, a GPU
// fails in the middle of a step.
#ifndef ATOLL_WORKER_TRAIN_MEMORY_H_
#define ATOLL_WORKER_TRAIN_MEMORY_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/model/arena.h"

namespace atl {

// The bytes of one worker that trains with `micro_batch` samples per pass. Stored data is exact
// (common/plan/worker_memory.h); activations are an estimate, which tests compare with measurements.
struct TrainingMemory {
  uint64_t parameter_bytes = 0;     // fp32 master
  uint64_t gradient_bytes = 0;      // fp32
  uint64_t moment_bytes = 0;        // AdamW: two fp32 arenas
  uint64_t working_copy_bytes = 0;  // bf16 only; 2 or 4 bytes per parameter
  uint64_t sync_bytes = 0;          // on the host: outer copy, residuals, encoded bytes, windows of a GPU
  uint64_t between_bytes = 0;       // on the training device, between passes: shares the memory of activations
  uint64_t activation_bytes = 0;    // kept for backward, with logits and the largest temporary
  bool gpu = false;
  bool recorded = false;  // a recording has its own memory for activations, in addition to that of launched passes
  // Bytes on the training device. With a CPU that is the host, so sync_bytes are included.
  uint64_t total() const { return device_bytes() + (gpu ? 0 : sync_bytes); }
  // Bytes on the host of a GPU; 0 with a CPU.
  uint64_t host_total() const { return gpu ? sync_bytes : 0; }

 private:
  uint64_t device_bytes() const {
    return parameter_bytes + gradient_bytes + moment_bytes + working_copy_bytes + (recorded ? activation_bytes : 0) +
           (activation_bytes > between_bytes ? activation_bytes : between_bytes);
  }
};

// Whether passes are only launched, or a recording of them is kept too (worker/train/pass_plan.h).
enum class Passes { kLaunched, kRecorded };

// `spec` is resolved. Requires micro_batch >= 1. Activations on a CPU take a fraction of those on a
// GPU, where autograd keeps them.
TrainingMemory EstimateTrainingMemory(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                      uint32_t micro_batch, Passes passes = Passes::kLaunched);

// The additional memory for forming contributions on a GPU (worker/device/device_encoder.h), on the GPU and its host.
struct FormingMemory {
  uint64_t gpu_bytes = 0, host_bytes = 0;
};
FormingMemory EstimateFormingMemory(const JobSpec& spec, const ModelLayout& layout);

// The size of one step's tokens, for a feed (worker/device).
uint64_t TokenBytes(const JobSpec& spec);

// The samples of one pass: `spec.batch.micro_batch` if given. Otherwise the largest power of two
// that is at most sequences_per_step, keeps a pass within 4,096 tokens on a CPU (65,536 on a GPU:
// more only takes memory), and fits `available_bytes` with a tenth to spare. ResourceExhausted,
// with every summand, if one sample (or the job's micro-batch) does not fit.
absl::StatusOr<uint32_t> ChooseMicroBatch(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                          uint64_t available_bytes, Passes passes = Passes::kLaunched);

// The wished passes; or launched ones, with the reason, if only the additional recording does not fit.
struct PassChoice {
  Passes passes = Passes::kLaunched;
  uint32_t micro_batch = 1;
  absl::Status recording_refused;
};
// Errors as ChooseMicroBatch.
absl::StatusOr<PassChoice> ChoosePasses(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                        uint64_t available_bytes, Passes wished);

// ResourceExhausted, with the sum, if the memory on the host of a GPU does not fit
// `available_bytes` with a tenth to spare. OK with a CPU, which ChooseMicroBatch checks.
absl::Status CheckHostMemory(const TrainingMemory& memory, uint64_t available_bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_MEMORY_H_
