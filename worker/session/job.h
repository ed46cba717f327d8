// SPDX-License-Identifier: Apache-2.0
// The interfaces of a job to the session: the parameters, the inner step, the samples. The daemon
// implements them with LibTorch and token shards; tests and the simulator with small versions.
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

// Leased samples in order. The daemon's JobData is one, with worker/data's SampleReader.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // AddLease: samples of `range` from position `cursor` on follow those of earlier leases. RemoveLease drops a lease.
  virtual absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) = 0;
  virtual void RemoveLease(LeaseId lease) = 0;
  // The next `samples` samples; waits for at most `limit`. DeadlineExceeded and Unavailable: nothing was taken, and
  // the caller may retry. FailedPrecondition means only that fewer samples are leased.
  virtual absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration limit) = 0;
};

struct StepOutcome {
  bool applied = false;  // false: not finite; parameters and moments are unchanged
  double loss = 0;       // mean over targets, nats
  double grad_norm = 0;  // before clipping
  uint64_t tokens = 0;   // targets
};

// Held-out samples [first, first + samples).
struct HeldOutPiece {
  uint64_t first = 0, samples = 0;
};
struct EvaluationOutcome {
  uint64_t samples = 0;     // fewer than requested: the split ends there
  double nll = 0;           // nats, summed over targets; if not finite, the evaluation fails
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

// The state of a job, as known to a worker.
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
  // One inner step. ResourceExhausted if memory is short. Unavailable if a rank of this worker is
  // lost: the worker then leaves with that reason. On any error nothing is changed.
  virtual absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) = 0;
  // Zeroes moments and steps, or restores a local snapshot of the job, from no later than about the step of
  // `at` and from no later version of any fragment: a rollback discards later versions, and their moments.
  virtual absl::Status BeginOptimizer(const JobStanding& at) = 0;
  // Takes a snapshot for a later BeginOptimizer, if it is due or the worker is `leaving`. Returns no errors.
  virtual void KeepOptimizer(const JobStanding& at, bool leaving) = 0;
  // The loss of `parameters` (host memory, job's layout) on a piece of the held-out samples, or as many as
  // exist. The pieces of one evaluation come in order, from sample 0 on, without steps or changes of
  // `parameters` between them; those of the tasks follow. Unavailable and DeadlineExceeded if data could not be
  // fetched: the same piece is requested again. Cancelled as for Prepare.
  virtual absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float> parameters, const HeldOutPiece& piece) = 0;
  // The score of `parameters` on a piece of a task. The pieces of one evaluation come in order,
  // from the first of task 0 on. Conditions and errors as for Evaluate.
  virtual absl::StatusOr<PieceScore> ScoreTask(std::span<float> parameters, const TaskPiece& piece) = 0;
};

// One job's memory and data; members are destroyed in reverse order.
struct JobParts {
  ModelLayout layout;
  std::shared_ptr<Device> device;
  std::unique_ptr<SampleSource> samples;
  std::unique_ptr<TrainingModel> model;
  EncodedBy formed_by = EncodedBy::kHost;  // the side that forms contributions
};

class JobFactory {
 public:
  virtual ~JobFactory() = default;
  // May block for long, within its own limits. Checks memory before allocating. ResourceExhausted:
  // too large for this worker, with the summands. NotFound: missing data, with its place.
  // InvalidArgument and Unimplemented: no worker can do better. Unavailable and DeadlineExceeded:
  // retried. Cancelled: stopped because the worker is to leave.
  virtual absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) = 0;
  // Called when a job, its preparation or an evaluation has failed with `why`. Unavailable, with both reasons, if the
  // cause is a lost device of this worker: the worker then leaves, and the job is not at fault. OK otherwise.
  virtual absl::Status WhyLost(const absl::Status& /*why*/) { return absl::OkStatus(); }
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_JOB_H_
