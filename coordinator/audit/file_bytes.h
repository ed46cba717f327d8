// SPDX-License-Identifier: Apache-2.0
// Bytes of the files that are audited, and the numbers in them.
#ifndef ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_
#define ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;  // what is long is read in pieces of this size

// `bytes` bytes from `offset`.
absl::StatusOr<std::string> ReadText(const File& file, uint64_t offset, uint64_t bytes);

// The number that `bytes` bytes (at most 8) of `text` from `at` are, the lowest first.
uint64_t Little(const std::string& text, size_t at, size_t bytes);
uint32_t Little32(const std::string& text, size_t at);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FILE_BYTES_H_
