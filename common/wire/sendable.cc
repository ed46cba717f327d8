// SPDX-License-Identifier: Apache-2.0
#include "common/wire/sendable.h"

#include <algorithm>

#include "common/base/utf8.h"

namespace atl {

std::string Sendable(std::string_view text, size_t most) {
  constexpr std::string_view kNote = "...";
  const size_t room = text.size() <= most ? most : most - std::min(most, kNote.size());
  std::string out;
  out.reserve(std::min(text.size(), most));
  for (size_t at = 0; at < text.size();) {
    const size_t length = ValidUtf8Length(text, at);
    if (out.size() + std::max<size_t>(length, 1) > room) return out.append(kNote, 0, most - room);
    if (length == 0) {
      out += '?';
      ++at;
    } else {
      out.append(text, at, length);
      at += length;
    }
  }
  return out;
}

}  // namespace atl
