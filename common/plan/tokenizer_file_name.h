// SPDX-License-Identifier: Apache-2.0
// Valid names for a job's tokenizer files, which an export writes next to the weights. Pure.
#ifndef ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_
#define ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_

#include "absl/strings/string_view.h"

namespace atl {

// The rule of IsTokenizerFileName, for messages such as "has 'X'; names must be ...".
inline constexpr char kTokenizerFileNameRule[] =
    "plain, at most 255 bytes without a directory or a leading dot, and none of what an export writes itself "
    "(config.json, generation_config.json and *.safetensors*)";

bool IsTokenizerFileName(absl::string_view name);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_TOKENIZER_FILE_NAME_H_
