// SPDX-License-Identifier: Apache-2.0
// The encoded update of a committed round as it lies in the round log, for downloads: read piece by piece, so that
// nothing of it is in memory for whoever takes it slowly.
#ifndef ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
#define ATOLL_COORDINATOR_STORE_UPDATE_READER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/wire/record_messages.h"

namespace atl {

// An open reader is a pin: the file stays readable after it was dropped. ReadAt may run beside other ReadAt calls.
class UpdateReader {
 public:
  // The `info.encoded_bytes` from `file_offset` on.
  UpdateReader(std::shared_ptr<File> file, UpdateInfo info, uint64_t file_offset);
  // Its pages leave the page cache, as those of a segment that is closed.
  ~UpdateReader();
  UpdateReader(const UpdateReader&) = delete;
  UpdateReader& operator=(const UpdateReader&) = delete;

  const UpdateInfo& info() const { return info_; }
  uint64_t file_offset() const { return file_offset_; }
  // OutOfRange beyond the update.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  const std::shared_ptr<File> file_;
  const UpdateInfo info_;
  const uint64_t file_offset_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
