// SPDX-License-Identifier: Apache-2.0
// Task files for zero-shot evaluation: one JSON object per line, in one of two forms, distinguished
// by their keys:
//
//   minimal pairs    {"sentence_good": …, "sentence_bad": …}                     BLiMP (Warstadt et al. 2020)
//   multiple choice  {"ctx": …, "endings": […], "label": 0}                      HellaSwag (Zellers et al. 2019)
//
// Other keys are ignored. `label` may be a number or its decimal digits. See
// docs/formats/eval-tasks.md.
#ifndef ATOLL_COMMON_FORMAT_EVAL_TASK_H_
#define ATOLL_COMMON_FORMAT_EVAL_TASK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace atl {

enum class EvalTaskKind { kMinimalPairs, kMultipleChoice };
const char* EvalTaskKindName(EvalTaskKind kind);  // "minimal_pairs", "multiple_choice"

struct EvalExample {
  std::string context;  // empty for minimal pairs
  std::vector<std::string>
      choices;         // at least 2, none empty; minimal pair: good, bad; multiple choice: with a leading space
  uint32_t label = 0;  // index of the right choice
};

struct EvalTask {
  EvalTaskKind kind = EvalTaskKind::kMinimalPairs;
  std::vector<EvalExample> examples;  // at least 1
};

// Returns correct / examples, and its standard error sqrt(share (1 - share) / examples). `examples`
// must be above 0.
double AccuracyOf(uint64_t correct, uint64_t examples);
double StandardErrorOf(uint64_t correct, uint64_t examples);

// Default name of a task: the file's name without directory and extension.
std::string EvalTaskName(const std::string& path);

inline constexpr size_t kEvalLineBytes = size_t{1} << 20;  // a longer line is refused

// InvalidArgument, "line N: …", for a line of neither form or of another form than the previous lines, or without any
// example. Blank lines are skipped. Reads no more than limits::kEvalExamples + 1 examples.
absl::StatusOr<EvalTask> ParseEvalTask(const std::string& jsonl);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_EVAL_TASK_H_
