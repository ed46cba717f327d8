// SPDX-License-Identifier: Apache-2.0
#include "common/text/choice_tokens.h"

#include <algorithm>

namespace atl {

absl::StatusOr<ChoiceTokens> TokensOfChoice(const Tokenizer& tokenizer, const std::string& context,
                                            const std::string& choice) {
  std::vector<uint32_t> before;
  ChoiceTokens out;
  ATOLL_RETURN_IF_ERROR(tokenizer.Encode(context, before));
  ATOLL_RETURN_IF_ERROR(tokenizer.Encode(context + choice, out.ids));
  if (before.empty()) {
    if (!tokenizer.eot_id().has_value()) {
      return absl::InvalidArgumentError(
          "the tokenizer has no end-of-text token, which must precede a text without context");
    }
    out.ids.insert(out.ids.begin(), *tokenizer.eot_id());
    before.assign(1, *tokenizer.eot_id());
  }
  if (out.ids.size() < 2 || out.ids == before) {
    return absl::InvalidArgumentError(
        "a choice has no separate token: the tokenizer drops its text, or merges it with its context into one token");
  }
  out.from = std::min(before.size(), out.ids.size() - 1);
  return out;
}

absl::Status CheckChoiceFits(const ChoiceTokens& tokens, size_t max_positions) {
  if (tokens.scored() <= max_positions) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a choice has ", tokens.scored(), " tokens, and the model's longest sequence is ", max_positions));
}

}  // namespace atl
