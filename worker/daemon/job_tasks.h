// SPDX-License-Identifier: Apache-2.0
// The evaluation tasks of one job at one worker. Files and tokenizer are fetched by hash from the
// coordinator when a task is first scored, and kept. Scores equal those of `atoll-worker eval` on
// the exported checkpoint, in the job's precision.
#ifndef ATOLL_WORKER_DAEMON_JOB_TASKS_H_
#define ATOLL_WORKER_DAEMON_JOB_TASKS_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "common/format/corpus_manifest.h"
#include "common/format/eval_task.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "common/rpc/bulk.h"
#include "common/text/tokenizer.h"
#include "worker/session/job.h"
#include "worker/train/choice_scorer.h"
#include "worker/train/trainer.h"

namespace atl {

// Owned by the session's thread; calls block.
class JobTasks {
 public:
  // `spec` is resolved, and `layout` is made from it. `bulk` outlives this object. `leave` cancels fetches.
  JobTasks(const JobSpec& spec, ModelLayout layout, CorpusTokenizer tokenizer, TensorDevice device, WorkerId worker,
           std::stop_token leave, BulkClient& bulk)
      : model_(spec.model),
        evaluation_(spec.evaluation),
        max_positions_(spec.data.sequence_length),
        layout_(std::move(layout)),
        corpus_tokenizer_(std::move(tokenizer)),
        device_(device),
        worker_(std::move(worker)),
        leave_(std::move(leave)),
        bulk_(bulk) {}

  // Implements TrainingModel::ScoreTask, with the `parameters` of an evaluation's first piece. DataLoss for a file
  // with another hash; InvalidArgument names the task; Cancelled if the worker is to leave.
  absl::StatusOr<PieceScore> Score(std::span<float> parameters, const TaskPiece& piece);
  // Frees model and scorer. Call before an inner step, which needs their memory. Keeps files and tokenizer.
  void Rest() {
    scorer_.reset();
    evaluator_.reset();
  }

 private:
  absl::Status Begin(std::span<float> parameters);
  absl::StatusOr<const EvalTask*> Task(uint32_t number);

  const ModelSpec model_;
  const EvaluationSpec evaluation_;
  const uint32_t max_positions_;
  const ModelLayout layout_;
  const CorpusTokenizer corpus_tokenizer_;
  const TensorDevice device_;
  const WorkerId worker_;
  const std::stop_token leave_;
  BulkClient& bulk_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::map<uint32_t, EvalTask> tasks_;  // by task number; only the examples that the job counts
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<ChoiceScorer> scorer_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_JOB_TASKS_H_
