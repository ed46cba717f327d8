// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/job_tasks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "worker/daemon/remote_blocks.h"

namespace atl {

absl::StatusOr<const EvalTask*> JobTasks::Task(uint32_t number) {
  if (number >= evaluation_.tasks.size()) return absl::InvalidArgumentError("the job has no such task");
  const auto known = tasks_.find(number);
  if (known != tasks_.end()) return &known->second;
  const EvaluationTaskSpec& spec = evaluation_.tasks[number];
  ATOLL_ASSIGN_OR_RETURN(const std::string text,
                         DownloadBlob(bulk_, spec.file, worker_, limits::kEvalTasksBytes, leave_));
  ATOLL_ASSIGN_OR_RETURN(EvalTask task, ParseEvalTask(text));
  if (task.examples.size() < spec.examples) {
    return absl::DataLossError(
        absl::StrCat("has ", task.examples.size(), " examples, but the job counts ", spec.examples));
  }
  task.examples.resize(spec.examples);
  return &tasks_.emplace(number, std::move(task)).first->second;
}

absl::Status JobTasks::Begin(std::span<float> parameters) {
  Rest();
  if (tokenizer_ == nullptr) {
    std::string file;
    if (!corpus_tokenizer_.file.empty()) {
      auto fetched = DownloadBlob(bulk_, corpus_tokenizer_.sha256, worker_, limits::kTokenizerFileBytes, leave_);
      if (!fetched.ok()) return Annotate(fetched.status(), corpus_tokenizer_.file);
      file = *std::move(fetched);
    }
    ATOLL_ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(corpus_tokenizer_.kind, std::move(file)));
  }
  // Options as in `atoll-worker eval`: no document boundaries, because each text is one document.
  ATOLL_ASSIGN_OR_RETURN(evaluator_, Evaluator::Create(model_, layout_, {}, device_, parameters));
  scorer_.emplace(evaluator_->model(), *tokenizer_, model_.vocab_size, max_positions_);
  return absl::OkStatus();
}

absl::StatusOr<PieceScore> JobTasks::Score(std::span<float> parameters, const TaskPiece& piece) {
  const auto found = Task(piece.task);
  if (!found.ok()) {
    const bool named = piece.task < evaluation_.tasks.size();
    return Annotate(found.status(), named ? absl::StrCat("task ", evaluation_.tasks[piece.task].name) : "a task");
  }
  const EvalTask& task = **found;
  if (!scorer_ || (piece.task == 0 && piece.first == 0)) ATOLL_RETURN_IF_ERROR(Begin(parameters));
  ChoiceTally tally;
  for (uint64_t i = piece.first; i < piece.first + piece.examples && i < task.examples.size(); ++i) {
    const auto scores = scorer_->Scores(task.examples[i]);
    if (!scores.ok())
      return Annotate(scores.status(), absl::StrCat("task ", evaluation_.tasks[piece.task].name, ", example ", i));
    tally.Count(task.examples[i], *scores);
  }
  PieceScore score{tally.correct, std::nullopt};
  if (task.kind == EvalTaskKind::kMultipleChoice) score.correct_per_byte = tally.correct_per_byte;
  return score;
}

}  // namespace atl
