// SPDX-License-Identifier: Apache-2.0
// JSON as Python's json module writes it, for parsers that are stricter than Python's. No parser here.
#ifndef ATOLL_COMMON_BASE_PYTHON_JSON_H_
#define ATOLL_COMMON_BASE_PYTHON_JSON_H_

#include <string>
#include <string_view>

namespace atl {

struct StrictJson {
  std::string text;              // as long as the original, so places in it are the same
  bool lone_surrogates = false;  // replaced by U+FFFD
};

// Replaces what Python reads and the standard or a double cannot hold: "\ud83d" without its other half by "\ufffd", and
// NaN, Infinity, -Infinity and numbers beyond double by an empty object, which no reader takes for a number or a text.
StrictJson StrictJsonOf(std::string_view text);

// The reason alone out of the message of a nlohmann exception: "invalid string: missing closing quote".
std::string ReasonOfJsonFault(std::string_view message);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PYTHON_JSON_H_
