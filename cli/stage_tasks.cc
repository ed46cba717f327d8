// SPDX-License-Identifier: Apache-2.0
#include "cli/stage_tasks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/format/eval_task.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/text/choice_tokens.h"

namespace atl::cli {
namespace {

// Every choice of the scored examples must fit into the model's training sequences.
absl::Status CheckLengths(const EvalTask& task, uint32_t examples, const Tokenizer& tokenizer,
                          uint32_t sequence_length) {
  const size_t scored = examples == 0 ? task.examples.size() : std::min<size_t>(examples, task.examples.size());
  for (size_t i = 0; i < scored; ++i) {
    for (const std::string& choice : task.examples[i].choices) {
      auto tokens = TokensOfChoice(tokenizer, task.examples[i].context, choice);
      const absl::Status fits = tokens.ok() ? CheckChoiceFits(*tokens, sequence_length) : tokens.status();
      if (!fits.ok()) return Annotate(fits, absl::StrCat("example ", i));
    }
  }
  return absl::OkStatus();
}

class TaskStager {
 public:
  TaskStager(const Files& files, const std::string& directory, const Tokenizer* tokenizer, JobFile& job,
             std::vector<StagedFile>& staged, std::vector<Fault>& faults)
      : files_(files), directory_(directory), tokenizer_(tokenizer), job_(job), staged_(staged), faults_(faults) {}

  void Stage(int index) {
    v1::EvaluationTaskSpec& task = *job_.spec.mutable_evaluation()->mutable_tasks(index);
    if (task.file().empty()) return;  // given by hash
    const std::string at = absl::StrCat("evaluation.tasks[", index, "]");
    const std::string path = ResolvePath(directory_, task.file());
    if (task.name().empty()) task.set_name(EvalTaskName(path));
    if (!IsTaskName(task.name())) {
      return Refuse(at + ".name", absl::StrCat("would be named '", task.name(),
                                               "' after its file; set a name of letters, digits, _, - and ."));
    }
    const absl::StatusOr<std::string> text = ReadWholeFile(files_, path, limits::kEvalTasksBytes - bytes_);
    if (!text.ok()) {
      return Refuse(at + ".file", absl::StrCat("cannot be read within the limit of ", limits::kEvalTasksBytes >> 20,
                                               " MiB for all task files: ", text.status().message()));
    }
    bytes_ += text->size();
    const absl::StatusOr<EvalTask> parsed = ParseEvalTask(*text);
    if (!parsed.ok()) return Refuse(at + ".file", absl::StrCat("is not a task file: ", parsed.status().message()));
    if (tokenizer_ != nullptr) {
      const absl::Status fits = CheckLengths(*parsed, task.examples(), *tokenizer_, SequenceLength());
      if (!fits.ok()) return Refuse(at + ".file", absl::StrCat("cannot be scored: ", fits.message()));
    }
    StagedFile staged = StageText("task file " + path, *text);
    task.set_file_sha256(staged.sha256.Hex());
    task.clear_file();
    staged_.push_back(std::move(staged));
  }

 private:
  uint32_t SequenceLength() const {
    const v1::DataSpec& data = job_.spec.data();
    return data.has_sequence_length() ? data.sequence_length() : DataSpec{}.sequence_length;
  }
  void Refuse(const std::string& path, std::string problem) {
    faults_.push_back({PlaceOf(job_, path), path, std::move(problem)});
  }

  const Files& files_;
  const std::string& directory_;
  const Tokenizer* tokenizer_;
  JobFile& job_;
  std::vector<StagedFile>& staged_;
  std::vector<Fault>& faults_;
  uint64_t bytes_ = 0;
};

}  // namespace

void StageTasks(const Files& files, const std::string& directory, const Tokenizer* tokenizer, JobFile& job,
                std::vector<StagedFile>& staged, std::vector<Fault>& faults) {
  TaskStager stager(files, directory, tokenizer, job, staged, faults);
  for (int i = 0; i < job.spec.evaluation().tasks_size(); ++i) stager.Stage(i);
}

}  // namespace atl::cli
