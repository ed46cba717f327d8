// SPDX-License-Identifier: Apache-2.0
// A choice behind its context as tokens, as evaluation tasks score it (docs/formats/eval-tasks.md).
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
  std::vector<uint32_t> ids;  // context and choice; the end-of-text token and the choice where there is no context
  size_t from = 1;            // ids[from ...] are the choice; at least 1 before it and 1 in it
  size_t scored() const { return ids.size() - from; }
};

// A context's tokens are those that it has alone; what follows them in the whole text is the choice, or the last token
// where the two run into one another. InvalidArgument without a context and without an end-of-text token, for a choice
// that leaves no token of its own, or for text that the tokenizer refuses.
absl::StatusOr<ChoiceTokens> TokensOfChoice(const Tokenizer& tokenizer, const std::string& context,
                                            const std::string& choice);

// InvalidArgument when the choice has more tokens than the model's longest sequence: they could not all be scored.
absl::Status CheckChoiceFits(const ChoiceTokens& tokens, size_t max_positions);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_CHOICE_TOKENS_H_
