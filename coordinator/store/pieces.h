// SPDX-License-Identifier: Apache-2.0
// Reads long data in pieces.
#ifndef ATOLL_COORDINATOR_STORE_PIECES_H_
#define ATOLL_COORDINATOR_STORE_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

// Calls `take` with each piece of [offset, offset + bytes) of the file, in order. Memory: 256 KiB.
template <typename Take>
absl::Status ReadInPieces(const File& file, uint64_t offset, uint64_t bytes, const Take& take) {
  constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    const auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), bytes - at));
    ATOLL_RETURN_IF_ERROR(file.ReadAt(offset + at, part));
    take(Bytes(part));
  }
  return absl::OkStatus();
}

inline absl::StatusOr<Sha256> HashFile(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  Sha256Hasher hasher;
  ATOLL_RETURN_IF_ERROR(ReadInPieces(*file, 0, size, [&hasher](Bytes piece) { hasher.Update(piece); }));
  return hasher.Finish();
}

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_PIECES_H_
