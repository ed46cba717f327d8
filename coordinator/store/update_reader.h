// SPDX-License-Identifier: Apache-2.0
// Reads the encoded update of a committed round from the round log, piece by piece for downloads. A
// slow download therefore occupies no memory for the update.
#ifndef ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
#define ATOLL_COORDINATOR_STORE_UPDATE_READER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/wire/record_messages.h"

namespace atl {

// The file stays readable after it was dropped while a reader is open. ReadAt is thread-safe.
class UpdateReader {
 public:
  // The update is the `info.encoded_bytes` bytes of `file` from `file_offset` on.
  UpdateReader(std::shared_ptr<File> file, UpdateInfo info, uint64_t file_offset);

  const UpdateInfo& info() const { return info_; }
  uint64_t file_offset() const { return file_offset_; }
  // OutOfRange: beyond the end of the update.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  const std::shared_ptr<File> file_;
  const UpdateInfo info_;
  const uint64_t file_offset_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
