// SPDX-License-Identifier: Apache-2.0
#include "worker/train/eval_task.h"

#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/format/eval_task.h"
#include "worker/model/model.h"
#include "worker/train/checkpoint.h"
#include "worker/train/choice_scorer.h"

namespace atl {
namespace {

constexpr size_t kTaskBytes = size_t{256} << 20;

// A checkpoint, ready to score.
struct Scorer {
  static absl::StatusOr<std::unique_ptr<Scorer>> Create(const Files& files, const std::string& directory) {
    auto made = std::make_unique<Scorer>();
    ATOLL_ASSIGN_OR_RETURN(made->checkpoint, LoadCheckpoint(files, directory));
    ATOLL_ASSIGN_OR_RETURN(made->tokenizer, LoadCheckpointTokenizer(files, directory));
    const HuggingFaceConfig& config = made->checkpoint.config;
    ATOLL_ASSIGN_OR_RETURN(
        made->model, Model::Create(config.model, made->checkpoint.layout, {}, *made->checkpoint.parameters, nullptr));
    made->choices.emplace(*made->model, *made->tokenizer, config.model.vocab_size, config.max_positions);
    return made;
  }

  Checkpoint checkpoint;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::optional<ChoiceScorer> choices;
};

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

std::string SummaryLine(const std::string& name, EvalTaskKind kind, const ChoiceTally& tally) {
  std::string line =
      absl::StrFormat("{\"task\":%s,\"kind\":\"%s\",\"examples\":%d,\"correct\":%d,\"accuracy\":%.6g", Quoted(name),
                      EvalTaskKindName(kind), tally.examples, tally.correct, AccuracyOf(tally.correct, tally.examples));
  absl::StrAppendFormat(&line, ",\"standard_error\":%.4g", StandardErrorOf(tally.correct, tally.examples));
  if (kind == EvalTaskKind::kMultipleChoice) {
    absl::StrAppendFormat(&line, ",\"correct_per_byte\":%d,\"accuracy_per_byte\":%.6g", tally.correct_per_byte,
                          AccuracyOf(tally.correct_per_byte, tally.examples));
  }
  return line + "}";
}

absl::StatusOr<ChoiceTally> RunTask(const std::string& name, const EvalTask& task, uint32_t limit, bool per_example,
                                    ChoiceScorer& scorer, std::ostream& out) {
  ChoiceTally tally;
  for (const EvalExample& example : task.examples) {
    if (limit != 0 && tally.examples == limit) break;
    auto scored = scorer.Scores(example);
    if (!scored.ok()) return Annotate(scored.status(), absl::StrCat("example ", tally.examples));
    if (per_example) {
      const std::optional<uint32_t> choice = HighestChoice(*scored);
      const auto number = [](std::string* to, double x) { absl::StrAppendFormat(to, "%.9g", x); };
      out << "{\"task\":" << Quoted(name) << ",\"example\":" << tally.examples << ",\"log_probabilities\":["
          << absl::StrJoin(*scored, ",", number) << "],\"label\":" << example.label
          << ",\"choice\":" << (choice ? std::to_string(*choice) : "null") << "}\n";
    }
    tally.Count(example, *scored);
  }
  return tally;
}

absl::StatusOr<EvalTask> LoadTask(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kTaskBytes));
  auto task = ParseEvalTask(text);
  if (!task.ok()) return Annotate(task.status(), path);
  return task;
}

}  // namespace

absl::Status RunEvalTasks(const EvalTaskOptions& options, std::ostream& out, std::ostream& talk) {
  if (options.tasks.empty()) return absl::InvalidArgumentError("--task names no file");
  const std::unique_ptr<Files> files = MakePosixFiles();
  if (options.threads > 0) SetTensorThreads(options.threads);
  std::vector<EvalTask> tasks;  // all read before the first is run, so that a fault in the last is found at once
  for (const std::string& path : options.tasks) {
    ATOLL_ASSIGN_OR_RETURN(EvalTask task, LoadTask(*files, path));
    tasks.push_back(std::move(task));
  }
  ATOLL_ASSIGN_OR_RETURN(const auto scorer, Scorer::Create(*files, options.checkpoint));
  talk << scorer->checkpoint.layout.elements << " parameters, " << tasks.size()
       << (tasks.size() == 1 ? " task\n" : " tasks\n");
  std::vector<double> accuracies;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const std::string name = EvalTaskName(options.tasks[i]);
    auto tally = RunTask(name, tasks[i], options.limit, options.per_example, *scorer->choices, out);
    if (!tally.ok()) return Annotate(tally.status(), options.tasks[i]);
    out << SummaryLine(name, tasks[i].kind, *tally) << "\n" << std::flush;
    accuracies.push_back(AccuracyOf(tally->correct, tally->examples));
  }
  if (accuracies.size() > 1) {
    const double mean =
        std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(accuracies.size());
    out << absl::StrFormat("{\"task\":\"mean\",\"tasks\":%d,\"accuracy\":%.6g}\n", accuracies.size(), mean);
  }
  return absl::OkStatus();
}

}  // namespace atl
