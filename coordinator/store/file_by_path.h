// SPDX-License-Identifier: Apache-2.0
// A file that is opened for each read. Between reads it occupies no descriptor and, once deleted,
// no disk space: an open file keeps the space for as long as its reader likes, and no budget counts
// it.
#ifndef ATOLL_COORDINATOR_STORE_FILE_BY_PATH_H_
#define ATOLL_COORDINATOR_STORE_FILE_BY_PATH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

// Thread-safe if `files`, which must outlive it, is.
class FileByPath {
 public:
  FileByPath(const Files& files, std::string path) : files_(files), path_(std::move(path)) {}
  // NotFound: the file was deleted. OutOfRange: the file is too short for `out`. Other errors: the disk.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const {
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files_.OpenForRead(path_));
    return file->ReadAt(offset, out);
  }

 private:
  const Files& files_;
  const std::string path_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_FILE_BY_PATH_H_
