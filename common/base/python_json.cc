// SPDX-License-Identifier: Apache-2.0
#include "common/base/python_json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace atl {
namespace {

constexpr size_t kEscapeBytes = 6;  // \uXXXX
constexpr size_t kReasonBytes = 200;

// Code of an escape \uXXXX at `at`, or -1.
int EscapeAt(std::string_view text, size_t at) {
  if (text.size() < at + kEscapeBytes || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int code = 0;
  for (const char c : text.substr(at + 2, 4)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    code = 16 * code + digit;
  }
  return code;
}

bool IsHigh(int code) { return code >= 0xd800 && code < 0xdc00; }
bool IsLow(int code) { return code >= 0xdc00 && code < 0xe000; }

// Length of the escape at `at`, including a pair of surrogates. Replaces a lone surrogate.
size_t PassEscape(StrictJson& json, size_t at) {
  const int code = EscapeAt(json.text, at);
  if (code < 0) return 2;
  if (IsHigh(code) && IsLow(EscapeAt(json.text, at + kEscapeBytes))) return 2 * kEscapeBytes;
  if (IsHigh(code) || IsLow(code)) {
    json.text.replace(at, kEscapeBytes, "\\ufffd");
    json.lone_surrogates = true;
  }
  return kEscapeBytes;
}

// Returns the end of the string that opens at `at`.
size_t PassString(StrictJson& json, size_t at) {
  for (++at; at < json.text.size() && json.text[at] != '"';) at += json.text[at] == '\\' ? PassEscape(json, at) : 1;
  return at + 1;
}

// Length of a value at `at` that is not a standard JSON number or does not fit a double; 0 for
// anything else.
size_t NoNumberAt(const std::string& text, size_t at) {
  for (const std::string_view name : {"NaN", "Infinity", "-Infinity"}) {
    if (text.compare(at, name.size(), name) == 0) return name.size();
  }
  const size_t end = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size());
  char* parsed = nullptr;
  const double value = std::strtod(text.c_str() + at, &parsed);
  return std::isinf(value) && parsed == text.c_str() + end ? end - at : 0;
}

}  // namespace

StrictJson StrictJsonOf(std::string_view text) {
  StrictJson json{.text = std::string(text)};
  for (size_t at = 0; at < json.text.size();) {
    const char c = json.text[at];
    if (c == '"') {
      at = PassString(json, at);
    } else if (c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I') {
      const size_t none = NoNumberAt(json.text, at);
      if (none > 0) json.text.replace(at, none, "{}" + std::string(none - 2, ' '));
      const size_t end = std::min(json.text.find_first_not_of("0123456789+-.eE", at), json.text.size());
      at = std::max({at + 1, at + none, end});
    } else {
      ++at;
    }
  }
  return json;
}

size_t ColumnNestedDeeper(std::string_view text, size_t levels) {
  size_t open = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++open > levels) return at + 1;
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
  return 0;
}

std::string ReasonOfJsonFault(std::string_view message) {
  // "[json.exception.parse_error.101] parse error at line 1, column 29: syntax error while parsing value - REASON; last
  // read: ..."
  message = message.substr(0, message.find("; last read"));
  for (const std::string_view before : {"] ", ": ", " - "}) {
    const size_t found = message.find(before);
    if (found != std::string_view::npos) message.remove_prefix(found + before.size());
  }
  return std::string(message.substr(0, kReasonBytes));
}

}  // namespace atl
