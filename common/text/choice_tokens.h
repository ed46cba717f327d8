// SPDX-License-Identifier: Apache-2.0
// Tokens of a choice after its context, for the scoring of evaluation tasks
// (docs/formats/eval-tasks.md).
#ifndef ATOLL_COMMON_TEXT_CHOICE_TOKENS_H_
#define ATOLL_COMMON_TEXT_CHOICE_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace atl {

struct ChoiceTokens {
  std::vector<uint32_t> ids;  // context and choice; without context the end-of-text token and the choice
  size_t from = 1;            // the choice is ids[from ...]; at least 1 token before it and 1 in it
  size_t scored() const { return ids.size() - from; }
};

// Tokenizes the context alone, and context and choice together. The tokens of both beyond the number of the context's
// are the choice; if there are none, because a token spans both, the last token is the choice. InvalidArgument with
// neither context nor end-of-text token, for a choice without a token of its own, or for text that the tokenizer
// refuses.
absl::StatusOr<ChoiceTokens> TokensOfChoice(const Tokenizer& tokenizer, const std::string& context,
                                            const std::string& choice);

// InvalidArgument when the choice is longer than the model's longest sequence, and could not be
// scored as a whole.
absl::Status CheckChoiceFits(const ChoiceTokens& tokens, size_t max_positions);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_CHOICE_TOKENS_H_
