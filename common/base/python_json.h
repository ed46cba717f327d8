// SPDX-License-Identifier: Apache-2.0
// Converts JSON from Python's json module for parsers that are stricter than Python's. Contains no
// parser.
#ifndef ATOLL_COMMON_BASE_PYTHON_JSON_H_
#define ATOLL_COMMON_BASE_PYTHON_JSON_H_

#include <string>
#include <string_view>

namespace atl {

struct StrictJson {
  std::string text;              // same length as the original, so that positions match
  bool lone_surrogates = false;  // replaced by U+FFFD
};

// Replaces values that Python accepts but that standard JSON or a double cannot represent. A lone
// surrogate such as "\ud83d" becomes "\ufffd". NaN, Infinity, -Infinity and numbers beyond double
// become an empty object, which no reader takes for a number or a text.
StrictJson StrictJsonOf(std::string_view text);

// Extracts the reason from the message of a nlohmann exception: "invalid string: missing closing
// quote".
std::string ReasonOfJsonFault(std::string_view message);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PYTHON_JSON_H_
