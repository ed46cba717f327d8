// SPDX-License-Identifier: Apache-2.0
// `atoll-worker eval`: how often a model gives the right choice of a task the highest log-probability (BLiMP's minimal
// pairs, HellaSwag's multiple choice; common/format/eval_task.h). On the CPU; talks to no coordinator.
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
  uint32_t limit = 0;              // examples read of each file; 0: all
  bool per_example = false;        // prints each example's scores as well
  int32_t threads = 0;             // of LibTorch; 0: its default
};

// Prints one JSON object a line and a task:
//   {"task":"passive_1","kind":"minimal_pairs","examples":200,"correct":131,"accuracy":0.655,"standard_error":0.0336}
// and for multiple choice "correct_per_byte", "accuracy_per_byte": the choice with the highest log-probability for each
// of its bytes. More than one task ends with a line of task "mean": the mean of the accuracies. With per_example a line
// before it for each example: {"task":…,"example":0,"log_probabilities":[…],"label":0,"choice":0}.
//
// The log-probability of a choice is the sum over its tokens, in nats, after the tokens of the context; a text without
// context begins after the end-of-text token. Equal scores count as wrong. What lies further back than the model's
// longest sequence is forgotten; a choice longer than that is refused. NotFound or InvalidArgument name the file.
absl::Status RunEvalTasks(const EvalTaskOptions& options, std::ostream& out, std::ostream& talk);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_EVAL_TASK_H_
