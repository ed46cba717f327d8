// SPDX-License-Identifier: Apache-2.0
// Files with which Hugging Face's AutoTokenizer loads an Atoll tokenizer and produces the same ids.
#ifndef ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
#define ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_

#include <map>
#include <string>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace atl {

// File name -> content: tokenizer.json or tokenizer.model, tokenizer_config.json, special_tokens_map.json.
absl::StatusOr<std::map<std::string, std::string>> HuggingFaceTokenizerFiles(const Tokenizer& tokenizer);

// True when a tokenizer.json, whatever its content, is the byte tokenizer's.
bool IsHuggingFaceByteTokenizer(const std::string& json);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
