// SPDX-License-Identifier: Apache-2.0
// The loss after some steps of a small job on a device, for comparing the plugin with the CPU.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_LOSS_AFTER_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_LOSS_AFTER_H_

#include <vector>

#include "tests/unit/worker/gpu/opened_plugin.h"
#include "tests/unit/worker/train/tiny_job.h"
#include "worker/train/trainer.h"

namespace atl {

inline JobSpec SmallJob() {
  JobSpec job = TinyJob();
  job.model.vocab_size = 64;
  job.model.kv_heads = 2;
  job.data.sequence_length = 16;
  job.batch.sequences_per_step = 2;
  return job;
}

inline std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens(2 * 17);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 64);
  return tokens;
}

// Device features used in addition to LibTorch, and the type.
struct Own {
  StepKernels* kernels = nullptr;
  PassKernels* pass_kernels = nullptr;
  HostFeed* feed = nullptr;
  PassRecorder* recorder = nullptr;
  Precision precision = Precision::kFp32;
};

inline absl::StatusOr<double> LossAfter(int steps, TensorDevice device, const Own& own = {}) {
  JobSpec job = SmallJob();
  job.model.precision = own.precision;
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.device = device;
  options.kernels = own.kernels;
  options.pass_kernels = own.pass_kernels;
  options.feed = own.feed;
  options.recorder = own.recorder;
  options.available_bytes = uint64_t{1} << 30;
  ATOLL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(job, layout, options, clock));
  ATOLL_RETURN_IF_ERROR(trainer->kernels_refused());
  ATOLL_RETURN_IF_ERROR(trainer->pass_kernels_refused());
  std::vector<float> initial(layout.elements);
  InitialParameters(layout, 3, 0, initial);
  ATOLL_RETURN_IF_ERROR(trainer->parameters().Write(0, initial));
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    ATOLL_ASSIGN_OR_RETURN(const StepReport report, trainer->Step({.tokens = Tokens(), .sequences = 2}, 1e-2));
    loss = report.loss;
  }
  ATOLL_RETURN_IF_ERROR(trainer->recording_refused());
  if (own.recorder != nullptr && !trainer->plays()) return absl::InternalError("no recording was made");
  return loss;
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_LOSS_AFTER_H_
