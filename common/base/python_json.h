// SPDX-License-Identifier: Apache-2.0
// Converts JSON from Python's json module for parsers that are stricter than Python's. Contains no
// parser.
#ifndef ATOLL_COMMON_BASE_PYTHON_JSON_H_
#define ATOLL_COMMON_BASE_PYTHON_JSON_H_

#include <cstddef>
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

// Column, from 1, of the first bracket of `text` that is nested deeper than `levels`; 0 if there is
// none. Brackets in strings do not count. A parser needs up to 80 bytes of memory for each level.
size_t ColumnNestedDeeper(std::string_view text, size_t levels);
inline constexpr size_t kJsonLevels = 512;  // half of what Python's json module reads

// Extracts the reason from the message of a nlohmann exception: "invalid string: missing closing
// quote".
std::string ReasonOfJsonFault(std::string_view message);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PYTHON_JSON_H_
