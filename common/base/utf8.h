// SPDX-License-Identifier: Apache-2.0
// UTF-8: validity and character lengths, and text for a terminal.
#ifndef ATOLL_COMMON_BASE_UTF8_H_
#define ATOLL_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace atl {

// Length in bytes of the character that begins at `at`, or 0 if it is invalid (RFC 3629: surrogates,
// overlong forms, truncated sequences and code points beyond U+10FFFF are invalid).
size_t ValidUtf8Length(std::string_view text, size_t at);

// Offset of the first byte that is not valid UTF-8, or text.size() when all is valid.
size_t FirstInvalidUtf8(const std::string& text);

// Length of the character that begins with `lead` in valid UTF-8: 1 to 4.
size_t Utf8Length(char lead);

// The character at `at` in valid UTF-8.
char32_t Utf8At(const std::string& text, size_t at);

// Appends the UTF-8 form of a code point.
void AppendUtf8(char32_t code, std::string& text);

// Replaces each byte of a control character by '?', except characters in `kept`. Text from elsewhere, such as
// names of files and workers, must not control a terminal.
std::string Printable(std::string_view text, std::string_view kept = "");

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_UTF8_H_
