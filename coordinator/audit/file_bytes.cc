// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/file_bytes.h"

#include <span>

namespace atl::audit {

absl::StatusOr<std::string> ReadText(const File& file, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '\0');
  ATOLL_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

uint64_t Little(const std::string& text, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
  return value;
}

uint32_t Little32(const std::string& text, size_t at) { return static_cast<uint32_t>(Little(text, at, 4)); }

}  // namespace atl::audit
