// SPDX-License-Identifier: Apache-2.0
// How much memory training takes, said before it is taken: a host overcommits and then kills, a GPU fails in mid-step.
#ifndef ATOLL_WORKER_TRAIN_MEMORY_H_
#define ATOLL_WORKER_TRAIN_MEMORY_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/model/arena.h"

namespace atl {

// Bytes of one worker that trains with `micro_batch` samples a pass: what it holds is exact
// (common/plan/worker_memory.h), activations are an estimate that tests hold against measurement.
struct TrainingMemory {
  uint64_t parameter_bytes = 0;     // fp32 master
  uint64_t gradient_bytes = 0;      // fp32
  uint64_t moment_bytes = 0;        // AdamW: two fp32 arenas
  uint64_t working_copy_bytes = 0;  // bf16 only; 2 or 4 bytes a parameter
  uint64_t sync_bytes = 0;          // of the host: outer copy, residuals, encoded bytes, windows of a GPU
  uint64_t between_bytes = 0;       // where it trains, while no pass runs: in the place of activations
  uint64_t activation_bytes = 0;    // kept for backward, with logits and the largest temporary
  bool gpu = false;
  bool recorded = false;  // a recording has its own memory for activations, beside that of launched passes
  // Of the device: a CPU's is the host, which holds everything.
  uint64_t total() const { return device_bytes() + (gpu ? 0 : sync_bytes); }
  // Of the host beside a GPU; 0 with a CPU.
  uint64_t host_total() const { return gpu ? sync_bytes : 0; }

 private:
  uint64_t device_bytes() const {
    return parameter_bytes + gradient_bytes + moment_bytes + working_copy_bytes + (recorded ? activation_bytes : 0) +
           (activation_bytes > between_bytes ? activation_bytes : between_bytes);
  }
};

// Whether passes are launched alone, or a recording of them is kept too (worker/train/pass_plan.h).
enum class Passes { kLaunched, kRecorded };

// `spec` is resolved. Requires micro_batch >= 1. On a CPU activations take a fraction of what they take on a GPU, where
// autograd keeps them.
TrainingMemory EstimateTrainingMemory(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                      uint32_t micro_batch, Passes passes = Passes::kLaunched);

// What forming contributions on a GPU takes beside that (worker/device/former.h), of the GPU and of its host.
struct FormingMemory {
  uint64_t gpu_bytes = 0, host_bytes = 0;
};
FormingMemory EstimateFormingMemory(const JobSpec& spec, const ModelLayout& layout);

// Of the tokens of one step, as a feed takes them (worker/device).
uint64_t TokenBytes(const JobSpec& spec);

// The samples of one pass: `spec.batch.micro_batch` if given, otherwise the largest power of two that is at most
// sequences_per_step, keeps a pass within 4,096 tokens on a CPU (65,536 on a GPU: beyond that it only takes memory) and
// fits `available_bytes` with a tenth to spare. ResourceExhausted, with every part of the sum, when one sample (or the
// job's micro-batch) does not fit.
absl::StatusOr<uint32_t> ChooseMicroBatch(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                          uint64_t available_bytes, Passes passes = Passes::kLaunched);

// Passes as they are wished, or launched ones where only a recording beside them does not fit, and why.
struct PassChoice {
  Passes passes = Passes::kLaunched;
  uint32_t micro_batch = 1;
  absl::Status recording_refused;
};
// Errors as of ChooseMicroBatch.
absl::StatusOr<PassChoice> ChoosePasses(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                        uint64_t available_bytes, Passes wished);

// ResourceExhausted, with the sum, when what the host holds beside a GPU does not fit `available_bytes` with a tenth to
// spare. OK with a CPU, whose memory ChooseMicroBatch looks at.
absl::Status CheckHostMemory(const TrainingMemory& memory, uint64_t available_bytes);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_MEMORY_H_
