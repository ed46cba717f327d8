// SPDX-License-Identifier: Apache-2.0
// Reads the encoded update of a committed round from the round log, piece by piece for downloads. A
// slow download therefore occupies no memory for the update.
#ifndef ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
#define ATOLL_COORDINATOR_STORE_UPDATE_READER_H_

#include <cstdint>
#include <span>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/wire/record_messages.h"

namespace atl {

// Holds no open file. Thread-safe.
class UpdateReader {
 public:
  // The update is the `info.encoded_bytes` bytes of the file at `path` from `file_offset` on. Once that file
  // is deleted, the last bytes of the file at `kept_path` are read instead. `files` must outlive the reader.
  UpdateReader(const Files& files, std::string path, std::string kept_path, UpdateInfo info, uint64_t file_offset);

  const UpdateInfo& info() const { return info_; }
  // NotFound: neither file exists. OutOfRange: beyond the end of the update. DataLoss: the kept file is too short.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  const Files& files_;
  const std::string path_, kept_path_;
  const UpdateInfo info_;
  const uint64_t file_offset_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_UPDATE_READER_H_
