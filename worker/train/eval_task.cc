#include "worker/train/eval_task.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/format/eval_task.h"
#include "worker/model/model.h"
#include "worker/train/checkpoint.h"

namespace atl {
namespace {

constexpr size_t kTaskBytes = size_t{256} << 20;

// One text to score: the log-probability of tokens[scored_from ...] after what comes before them.
struct Text {
  std::vector<int32_t> tokens;  // at least 2
  size_t scored_from = 1;
};

double LogProbability(const Text& text, const float* scores, size_t vocab) {
  double sum = 0;
  for (size_t i = text.scored_from; i < text.tokens.size(); ++i) {
    const float* row = scores + (i - 1) * vocab;
    const double top = *std::max_element(row, row + vocab);
    double total = 0;
    for (size_t v = 0; v < vocab; ++v) total += std::exp(row[v] - top);
    sum += row[text.tokens[i]] - top - std::log(total);
  }
  return sum;
}

class Scorer {
 public:
  static absl::StatusOr<std::unique_ptr<Scorer>> Create(const Files& files, const std::string& directory) {
    auto made = std::make_unique<Scorer>();
    ATOLL_ASSIGN_OR_RETURN(made->checkpoint_, LoadCheckpoint(files, directory));
    ATOLL_ASSIGN_OR_RETURN(made->tokenizer_, LoadCheckpointTokenizer(files, directory));
    ATOLL_ASSIGN_OR_RETURN(made->model_, Model::Create(made->checkpoint_.config.model, made->checkpoint_.layout, {},
                                                       *made->checkpoint_.parameters, nullptr));
    return made;
  }

  uint64_t parameters() const { return checkpoint_.layout.elements; }

  // One score a choice.
  absl::StatusOr<std::vector<double>> Scores(const EvalExample& example) {
    std::vector<double> out;
    for (const std::string& choice : example.choices) {
      ATOLL_ASSIGN_OR_RETURN(const Text text, Prepare(example.context, choice));
      ATOLL_ASSIGN_OR_RETURN(const double score, Score(text));
      out.push_back(score);
    }
    return out;
  }

 private:
  // A context's tokens are those that it has alone; what follows them in the whole text is the choice.
  absl::StatusOr<Text> Prepare(const std::string& context, const std::string& choice) const {
    std::vector<uint32_t> before, whole;
    ATOLL_RETURN_IF_ERROR(tokenizer_->Encode(context, before));
    ATOLL_RETURN_IF_ERROR(tokenizer_->Encode(context + choice, whole));
    if (before.empty()) {
      if (!tokenizer_->eot_id().has_value()) {
        return absl::InvalidArgumentError(
            "the tokenizer has no end-of-text token, after which a text without context could begin");
      }
      whole.insert(whole.begin(), *tokenizer_->eot_id());
      before.assign(1, *tokenizer_->eot_id());
    }
    const size_t window = checkpoint_.config.max_positions + size_t{1};  // the last token is not read, only scored
    const size_t from = std::min(before.size(), whole.size() - 1);
    if (whole.size() - from > window - 1) {
      return absl::InvalidArgumentError(absl::StrCat("a choice has ", whole.size() - from,
                                                     " tokens, and the model's longest sequence is ", window - 1));
    }
    const size_t cut = whole.size() > window ? whole.size() - window : 0;
    return Text{std::vector<int32_t>(whole.begin() + static_cast<ptrdiff_t>(cut), whole.end()), from - cut};
  }

  // A pass of its own for each text, so that a score does not depend on what else is scored.
  absl::StatusOr<double> Score(const Text& text) {
    const size_t vocab = checkpoint_.config.model.vocab_size;
    std::vector<float> scores(text.tokens.size() * vocab);
    ATOLL_RETURN_IF_ERROR(model_->Logits({.tokens = text.tokens, .sequences = 1}, scores));
    return LogProbability(text, scores.data(), vocab);
  }

  Checkpoint checkpoint_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
};

// The only highest score, or no choice at all.
std::optional<uint32_t> Highest(const std::vector<double>& scores) {
  const auto top = std::max_element(scores.begin(), scores.end());
  if (std::count(scores.begin(), scores.end(), *top) != 1) return std::nullopt;
  return static_cast<uint32_t>(top - scores.begin());
}

std::vector<double> PerByte(const EvalExample& example, std::vector<double> scores) {
  for (size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<double>(example.choices[i].size());
  return scores;
}

std::string TaskName(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.substr(0, file.rfind('.'));
}

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

struct Tally {
  uint64_t examples = 0, correct = 0, correct_per_byte = 0;
  double Accuracy() const { return static_cast<double>(correct) / static_cast<double>(examples); }
};

std::string SummaryLine(const std::string& name, EvalTaskKind kind, const Tally& tally) {
  const double n = static_cast<double>(tally.examples), accuracy = tally.Accuracy();
  std::string line = absl::StrFormat("{\"task\":%s,\"kind\":\"%s\",\"examples\":%d,\"correct\":%d,\"accuracy\":%.6g",
                                     Quoted(name), EvalTaskKindName(kind), tally.examples, tally.correct, accuracy);
  absl::StrAppendFormat(&line, ",\"standard_error\":%.4g", std::sqrt(accuracy * (1 - accuracy) / n));
  if (kind == EvalTaskKind::kMultipleChoice) {
    absl::StrAppendFormat(&line, ",\"correct_per_byte\":%d,\"accuracy_per_byte\":%.6g", tally.correct_per_byte,
                          static_cast<double>(tally.correct_per_byte) / n);
  }
  return line + "}";
}

absl::StatusOr<Tally> RunTask(const std::string& name, const EvalTask& task, uint32_t limit, bool per_example,
                              Scorer& scorer, std::ostream& out) {
  Tally tally;
  for (const EvalExample& example : task.examples) {
    if (limit != 0 && tally.examples == limit) break;
    auto scored = scorer.Scores(example);
    if (!scored.ok()) return Annotate(scored.status(), absl::StrCat("example ", tally.examples));
    const std::optional<uint32_t> choice = Highest(*scored);
    if (per_example) {
      const auto number = [](std::string* to, double x) { absl::StrAppendFormat(to, "%.9g", x); };
      out << "{\"task\":" << Quoted(name) << ",\"example\":" << tally.examples << ",\"log_probabilities\":["
          << absl::StrJoin(*scored, ",", number) << "],\"label\":" << example.label
          << ",\"choice\":" << (choice ? std::to_string(*choice) : "null") << "}\n";
    }
    tally.examples += 1;
    tally.correct += choice == example.label ? 1 : 0;
    tally.correct_per_byte += Highest(PerByte(example, *std::move(scored))) == example.label ? 1 : 0;
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
  std::vector<EvalTask> tasks;  // all read before the first is run, so that a fault in the last costs no hours
  for (const std::string& path : options.tasks) {
    ATOLL_ASSIGN_OR_RETURN(EvalTask task, LoadTask(*files, path));
    tasks.push_back(std::move(task));
  }
  ATOLL_ASSIGN_OR_RETURN(const auto scorer, Scorer::Create(*files, options.checkpoint));
  talk << scorer->parameters() << " parameters, " << tasks.size() << (tasks.size() == 1 ? " task\n" : " tasks\n");
  std::vector<double> accuracies;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const std::string name = TaskName(options.tasks[i]);
    auto tally = RunTask(name, tasks[i], options.limit, options.per_example, *scorer, out);
    if (!tally.ok()) return Annotate(tally.status(), options.tasks[i]);
    out << SummaryLine(name, tasks[i].kind, *tally) << "\n" << std::flush;
    accuracies.push_back(tally->Accuracy());
  }
  if (accuracies.size() > 1) {
    const double mean =
        std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(accuracies.size());
    out << absl::StrFormat("{\"task\":\"mean\",\"tasks\":%d,\"accuracy\":%.6g}\n", accuracies.size(), mean);
  }
  return absl::OkStatus();
}

}  // namespace atl
