// SPDX-License-Identifier: Apache-2.0
// Files with which Hugging Face's AutoTokenizer loads an Atoll tokenizer and produces the same ids.
#ifndef ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
#define ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_

#include <map>
#include <string>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace atl {

// File name -> content: tokenizer.json, tokenizer_config.json, special_tokens_map.json, and a SentencePiece model.
absl::StatusOr<std::map<std::string, std::string>> HuggingFaceTokenizerFiles(const Tokenizer& tokenizer);

// True when `json`, which may be any text, is a tokenizer.json like the byte tokenizer's: BPE, 256 tokens, no merges.
bool IsHuggingFaceByteTokenizer(const std::string& json);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_HUGGINGFACE_TOKENIZER_H_
