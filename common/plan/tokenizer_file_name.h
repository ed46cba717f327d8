// SPDX-License-Identifier: Apache-2.0
// What the files of a job's tokenizer may be called: an export writes them beside the weights. Pure.
#ifndef ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_
#define ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_

#include "absl/strings/string_view.h"

namespace atl {

// The rule of IsTokenizerFileName, for a sentence such as "has 'X'; names must be " and this.
inline constexpr char kTokenizerFileNameRule[] =
    "plain, at most 255 bytes without a directory or a leading dot, and none of what an export writes itself "
    "(config.json, generation_config.json and *.safetensors*)";

bool IsTokenizerFileName(absl::string_view name);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_
