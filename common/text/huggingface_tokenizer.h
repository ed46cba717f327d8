// SPDX-License-Identifier: Apache-2.0
// The files by which Hugging Face's AutoTokenizer loads one of our tokenizers and gives the same ids.
#ifndef ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
#define ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_

#include <map>
#include <string>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace atl {

// File name -> content: tokenizer.json or tokenizer.model, tokenizer_config.json, special_tokens_map.json.
absl::StatusOr<std::map<std::string, std::string>> HuggingFaceTokenizerFiles(const Tokenizer& tokenizer);

// Whether a tokenizer.json, whatever is in it, is the byte tokenizer's.
bool IsHuggingFaceByteTokenizer(const std::string& json);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
