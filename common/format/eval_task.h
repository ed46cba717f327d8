// SPDX-License-Identifier: Apache-2.0
// Task files for zero-shot evaluation, one JSON object a line, of two forms that are told apart by their keys:
//
//   minimal pairs    {"sentence_good": …, "sentence_bad": …}                     BLiMP (Warstadt et al. 2020)
//   multiple choice  {"ctx": …, "endings": […], "label": 0}                      HellaSwag (Zellers et al. 2019)
//
// Other keys are not read. `label` may be a number or its decimal digits. The page is docs/formats/eval-tasks.md.
#ifndef ATOLL_COMMON_FORMAT_EVAL_TASK_H_
#define ATOLL_COMMON_FORMAT_EVAL_TASK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace atl {

enum class EvalTaskKind { kMinimalPairs, kMultipleChoice };
const char* EvalTaskKindName(EvalTaskKind kind);  // "minimal_pairs", "multiple_choice"

struct EvalExample {
  std::string context;               // empty for minimal pairs
  std::vector<std::string> choices;  // at least 2, none empty; of a minimal pair: good, bad. A choice of multiple
                                     // choice begins with a space unless it had one
  uint32_t label = 0;                // the right choice
};

struct EvalTask {
  EvalTaskKind kind = EvalTaskKind::kMinimalPairs;
  std::vector<EvalExample> examples;  // at least 1
};

// correct / examples, and its standard error sqrt(share (1 - share) / examples); `examples` is above 0.
double AccuracyOf(uint64_t correct, uint64_t examples);
double StandardErrorOf(uint64_t correct, uint64_t examples);

// What a task is called after its file: the file's name without directory and ending.
std::string EvalTaskName(const std::string& path);

// InvalidArgument, "line N: …", for what is not such a file, or mixes both forms.
absl::StatusOr<EvalTask> ParseEvalTask(const std::string& jsonl);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_EVAL_TASK_H_
