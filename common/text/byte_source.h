// SPDX-License-Identifier: Apache-2.0
// A file or pipe as a stream of bytes; zstd and gzip are decompressed. Bounded memory: the window
// of the compression, at most 128 MiB, and some buffers. Inside this room only.
#ifndef ATOLL_COMMON_TEXT_BYTE_SOURCE_H_
#define ATOLL_COMMON_TEXT_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Appends at least one byte to `out`; false at the end. Errors name a helpful command: InvalidArgument
  // when compressed data is damaged or truncated, Unimplemented when the file may be sound but is of
  // a kind that is not supported.
  virtual absl::StatusOr<bool> Read(std::string& out) = 0;
  // Bytes of the (compressed) file read so far.
  virtual uint64_t position_bytes() const = 0;
  // nullopt for a pipe, which can be read only once.
  virtual std::optional<uint64_t> file_bytes() const = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlain(const Files& files, const std::string& path);

// The first Read selects the decoder (none, gzip, zstd) by the first bytes. Consecutive frames or members form one
// stream. Zeros after them are skipped, anything else is refused. A file named .gz or .zst must be compressed with
// gzip or zstd, whichever of the two. A UTF-8 byte order mark at the beginning is skipped. A mark of UTF-16 is
// Unimplemented, like other compressions.
std::unique_ptr<ByteSource> Decompressed(std::unique_ptr<ByteSource> plain, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_BYTE_SOURCE_H_
