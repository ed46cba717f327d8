// SPDX-License-Identifier: Apache-2.0
// `atoll-worker eval`: how often a model gives the right choice of a task the highest
// log-probability (BLiMP's minimal pairs, HellaSwag's multiple choice; common/format/eval_task.h).
// Runs on the CPU, without a coordinator.
#ifndef ATOLL_WORKER_TRAIN_EVAL_TASK_H_
#define ATOLL_WORKER_TRAIN_EVAL_TASK_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace atl {

struct EvalTaskOptions {
  std::string checkpoint;          // a Hugging Face directory with tokenizer
  std::vector<std::string> tasks;  // files, at least one
  uint32_t limit = 0;              // examples read from each file; 0: all
  bool per_example = false;        // prints each example's scores as well
  int32_t threads = 0;             // of LibTorch; 0: its default
};

// Prints one JSON object per line and task:
//   {"task":"passive_1","kind":"minimal_pairs","examples":200,"correct":131,"accuracy":0.655,"standard_error":0.0336}
// and for multiple choice "correct_per_byte", "accuracy_per_byte": the choice with the highest log-probability per
// byte. With more than one task, the last line has the task "mean": the mean of the accuracies. With per_example, each
// example has a line, before its task's: {"task":…,"example":0,"log_probabilities":[…],"label":0,"choice":0}.
//
// The log-probability of a choice is the sum over its tokens, in nats, given the tokens of the context; a text
// without context begins after the end-of-text token. Ties count as wrong. The context is cut to the model's
// longest sequence; a longer choice is refused. NotFound or InvalidArgument name the file.
absl::Status RunEvalTasks(const EvalTaskOptions& options, std::ostream& out, std::ostream& talk);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_EVAL_TASK_H_
