// SPDX-License-Identifier: Apache-2.0
#include "worker/train/choice_scorer.h"

#include <algorithm>
#include <cmath>

#include "common/text/choice_tokens.h"

namespace atl {
namespace {

std::vector<double> PerByte(const EvalExample& example, std::vector<double> scores) {
  for (size_t i = 0; i < scores.size(); ++i) scores[i] /= static_cast<double>(example.choices[i].size());
  return scores;
}

}  // namespace

// One text to score: the log-probability of tokens[scored_from ...] given the tokens before them.
struct ChoiceScorer::Text {
  std::vector<int32_t> tokens;  // at least 2
  size_t scored_from = 1;

  // `scores`: a row of the model's logits for each token.
  double LogProbability(const float* scores, size_t vocab) const {
    double sum = 0;
    for (size_t i = scored_from; i < tokens.size(); ++i) {
      const float* row = scores + (i - 1) * vocab;
      const double top = *std::max_element(row, row + vocab);
      double total = 0;
      for (size_t v = 0; v < vocab; ++v) total += std::exp(row[v] - top);
      sum += row[tokens[i]] - top - std::log(total);
    }
    return sum;
  }
};

absl::StatusOr<std::vector<double>> ChoiceScorer::Scores(const EvalExample& example) {
  std::vector<double> out;
  out.reserve(example.choices.size());
  for (const std::string& choice : example.choices) {
    ATOLL_ASSIGN_OR_RETURN(const Text text, Prepare(example.context, choice));
    ATOLL_ASSIGN_OR_RETURN(const double score, Score(text));
    out.push_back(score);
  }
  return out;
}

absl::StatusOr<ChoiceScorer::Text> ChoiceScorer::Prepare(const std::string& context, const std::string& choice) const {
  ATOLL_ASSIGN_OR_RETURN(const ChoiceTokens tokens, TokensOfChoice(tokenizer_, context, choice));
  ATOLL_RETURN_IF_ERROR(CheckChoiceFits(tokens, max_positions_));
  const size_t window = max_positions_ + size_t{1};  // the last token is scored but not read
  const size_t cut = tokens.ids.size() > window ? tokens.ids.size() - window : 0;
  return Text{{tokens.ids.begin() + static_cast<ptrdiff_t>(cut), tokens.ids.end()}, tokens.from - cut};
}

absl::StatusOr<double> ChoiceScorer::Score(const Text& text) {
  std::vector<float> scores(text.tokens.size() * vocab_size_);
  ATOLL_RETURN_IF_ERROR(model_.Logits({.tokens = text.tokens, .sequences = 1}, scores));
  return text.LogProbability(scores.data(), vocab_size_);
}

std::optional<uint32_t> HighestChoice(const std::vector<double>& scores) {
  const auto top = std::max_element(scores.begin(), scores.end());
  if (std::count(scores.begin(), scores.end(), *top) != 1) return std::nullopt;
  return static_cast<uint32_t>(top - scores.begin());
}

void ChoiceTally::Count(const EvalExample& example, const std::vector<double>& scores) {
  examples += 1;
  correct += HighestChoice(scores) == example.label ? 1 : 0;
  correct_per_byte += HighestChoice(PerByte(example, scores)) == example.label ? 1 : 0;
}

}  // namespace atl
