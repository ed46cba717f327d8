// SPDX-License-Identifier: Apache-2.0
// Computes a model's log-probability for each choice of an example, for `atoll-worker eval` and the
// evaluations of a job. The rules are in docs/formats/eval-tasks.md.
#ifndef ATOLL_WORKER_TRAIN_CHOICE_SCORER_H_
#define ATOLL_WORKER_TRAIN_CHOICE_SCORER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/format/eval_task.h"
#include "common/text/tokenizer.h"
#include "worker/model/model.h"

namespace atl {

// Owned by one thread at a time, as its model is.
class ChoiceScorer {
 public:
  // `model` and `tokenizer` outlive it. Texts longer than `max_positions` + 1 tokens lose the start of their context.
  ChoiceScorer(Model& model, const Tokenizer& tokenizer, uint32_t vocab_size, uint32_t max_positions)
      : model_(model), tokenizer_(tokenizer), vocab_size_(vocab_size), max_positions_(max_positions) {}

  // The log-probability of each choice in nats, summed over its tokens. One pass per choice, so that a score
  // does not depend on other scores. InvalidArgument for a choice longer than max_positions or without a token
  // of its own, a token unknown to the model, or no context and no end-of-text token.
  absl::StatusOr<std::vector<double>> Scores(const EvalExample& example);

 private:
  struct Text;
  absl::StatusOr<Text> Prepare(const std::string& context, const std::string& choice) const;
  absl::StatusOr<double> Score(const Text& text);

  Model& model_;
  const Tokenizer& tokenizer_;
  const uint32_t vocab_size_, max_positions_;
};

// The index of the single highest score; nothing on a tie.
std::optional<uint32_t> HighestChoice(const std::vector<double>& scores);

// Counts examples, and those in which the right choice alone is highest: by log-probability, and by that per byte.
struct ChoiceTally {
  uint64_t examples = 0, correct = 0, correct_per_byte = 0;
  // `scores`: one for each choice of `example`.
  void Count(const EvalExample& example, const std::vector<double>& scores);
};

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_CHOICE_SCORER_H_
