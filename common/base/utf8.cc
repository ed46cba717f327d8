// SPDX-License-Identifier: Apache-2.0
#include "common/base/utf8.h"

#include <cstdint>

namespace atl {
namespace {

uint8_t At(std::string_view text, size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; }

bool Continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

// Unicode 15, table 3-7.
size_t ValidUtf8Length(std::string_view text, size_t at) {
  const uint8_t a = At(text, at), b = At(text, at + 1), c = At(text, at + 2), d = At(text, at + 3);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return Continues(b) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f)) return 0;
    return Continues(b) && Continues(c) ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    if ((a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f)) return 0;
    return Continues(b) && Continues(c) && Continues(d) ? 4 : 0;
  }
  return 0;
}

size_t FirstInvalidUtf8(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = ValidUtf8Length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return text.size();
}

size_t Utf8Length(char lead) {
  const uint8_t byte = static_cast<uint8_t>(lead);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

char32_t Utf8At(const std::string& text, size_t at) {
  const size_t length = Utf8Length(text[at]);
  if (length == 1) return static_cast<uint8_t>(text[at]);
  char32_t code = static_cast<uint8_t>(text[at]) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (At(text, at + i) & 0x3fu);
  return code;
}

void AppendUtf8(char32_t code, std::string& text) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return push(code);
  if (code < 0x800) {
    push(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      push(0xe0 | code >> 12);
    } else {
      push(0xf0 | code >> 18);
      push(0x80 | (code >> 12 & 0x3f));
    }
    push(0x80 | (code >> 6 & 0x3f));
  }
  push(0x80 | (code & 0x3f));
}

std::string Printable(std::string_view text, std::string_view kept) {
  std::string out(text);
  for (char& c : out) {
    if ((static_cast<unsigned char>(c) < 0x20 || c == 0x7f) && kept.find(c) == std::string_view::npos) c = '?';
  }
  // C1 control characters, which some terminals interpret, are C2 80 to C2 9F in UTF-8.
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (static_cast<unsigned char>(out[i]) == 0xC2 && static_cast<unsigned char>(out[i + 1]) < 0xA0) {
      out[i] = '?';
      out[i + 1] = '?';
    }
  }
  return out;
}

}  // namespace atl
