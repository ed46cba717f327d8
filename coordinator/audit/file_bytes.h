// SPDX-License-Identifier: Apache-2.0
// Bytes of audited files, and the numbers in them.
#ifndef ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_
#define ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;  // long data is read in pieces of this size

// Reads `bytes` bytes from `offset`.
absl::StatusOr<std::string> ReadText(const File& file, uint64_t offset, uint64_t bytes);

// The little-endian number in `bytes` bytes (at most 8) of `text` from `at`.
uint64_t Little(const std::string& text, size_t at, size_t bytes);
uint32_t Little32(const std::string& text, size_t at);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_
