// SPDX-License-Identifier: Apache-2.0
// What a session needs of a job that it does not make itself: where parameters live, how a step is taken, where samples
// come from. The daemon fills these with LibTorch and token shards; tests and the simulator with something small.
#ifndef ATOLL_WORKER_SESSION_JOB_H_
#define ATOLL_WORKER_SESSION_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/boot_lines.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"
#include "common/plan/model_layout.h"
#include "worker/data/sample_reader.h"
#include "worker/device/device.h"

namespace atl {

// Leased samples in order. worker/data's SampleReader is one.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // As SampleReader::AddLease and RemoveLease.
  virtual absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) = 0;
  virtual void RemoveLease(LeaseId lease) = 0;
  // As SampleReader::Next: DeadlineExceeded and Unavailable mean that nothing was taken and another try is worth it,
  // FailedPrecondition that fewer samples are leased, and nothing else.
  virtual absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration limit) = 0;
};

struct StepOutcome {
  bool applied = false;  // false: not finite; parameters and moments are as before
  double loss = 0;       // mean over targets, nats
  double grad_norm = 0;  // before clipping
  uint64_t tokens = 0;   // targets
};

// Held-out samples [first, first + samples).
struct HeldOutPiece {
  uint64_t first = 0, samples = 0;
};
struct EvaluationOutcome {
  uint64_t samples = 0;     // read; fewer than asked: the split ends there
  double nll = 0;           // nats, summed over targets; not finite: the evaluation fails
  uint64_t tokens = 0;      // targets
  uint64_t text_bytes = 0;  // 0: unknown
};

// Examples [first, first + examples) of the job's evaluation.tasks[task].
struct TaskPiece {
  uint32_t task = 0;
  uint64_t first = 0, examples = 0;
};
struct PieceScore {
  uint64_t correct = 0;
  std::optional<uint64_t> correct_per_byte;  // absent for minimal pairs
};

// Where a job stands, for a worker of it.
struct JobStanding {
  uint64_t clock_step = 0;
  VersionVector versions;  // of each fragment
  JobCourse course{};
};

// Owned by the session's thread; calls block.
class TrainingModel {
 public:
  virtual ~TrainingModel() = default;
  // The whole arena in the job's layout, in memory of the job's device. The session changes it between steps.
  virtual std::span<float> parameters() = 0;
  virtual void* compute_stream() = 0;
  // The session has changed this fragment of parameters().
  virtual void ParametersChanged(FragmentIndex /*fragment*/) {}
  // One inner step. ResourceExhausted when memory ran out, Unavailable when a rank of this worker is lost: it leaves,
  // with that reason. On any error nothing is changed.
  virtual absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) = 0;
  // Zero moments and steps, or those that this machine kept of the job when it was at or before about the step of `at`,
  // and at no later version of any fragment: those a rollback has given up, and moments with them.
  virtual absl::Status BeginOptimizer(const JobStanding& at) = 0;
  // Keeps them for a later BeginOptimizer, if it is time for it or the worker is `leaving`. Nothing fails by it.
  virtual void KeepOptimizer(const JobStanding& at, bool leaving) = 0;
  // The loss of `parameters` (host memory, job's layout) on a piece of the held-out samples, or as many as there are.
  // The pieces of one evaluation come in order, beginning with sample 0, with no step and no change of `parameters`
  // between them; the tasks' come after them. Unavailable and DeadlineExceeded when data could not be fetched: the same
  // piece is asked for again. Cancelled as for Prepare.
  virtual absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float> parameters, const HeldOutPiece& piece) = 0;
  // How `parameters` do on a piece of a task, from the first of task 0 on, in the same way, with the same
  // errors.
  virtual absl::StatusOr<PieceScore> ScoreTask(std::span<float> parameters, const TaskPiece& piece) = 0;
};

// How many threads share the work of what goes over a fragment's parameters on the host.
struct SyncThreads {
  unsigned at_rest = 1;  // where nothing is trained meanwhile: applying, merging, and a contribution formed at rest
  unsigned beside = 1;   // beside training
};

// One job's memory and data; members are destroyed in reverse order.
struct JobParts {
  ModelLayout layout;
  std::shared_ptr<Device> device;
  std::unique_ptr<SampleSource> samples;
  std::unique_ptr<TrainingModel> model;
  FormedBy formed_by = FormedBy::kHost;  // contributions
};

class JobFactory {
 public:
  virtual ~JobFactory() = default;
  // May take long and block, within limits of its own. Checks memory before taking it. ResourceExhausted: too large for
  // this worker, with the sum. NotFound: data is missing, with its place. InvalidArgument and Unimplemented: no worker
  // will do better. Unavailable and DeadlineExceeded: asked again. One sentence each. Cancelled: it
  // was stopped because the worker is to leave.
  virtual absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) = 0;
  // Asked where a job, or its preparation, has failed with `why`: Unavailable, with both reasons, when it is because a
  // device of this worker is lost. It leaves then, and no job is at fault. OK otherwise.
  virtual absl::Status WhyLost(const absl::Status& /*why*/) { return absl::OkStatus(); }
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_JOB_H_
