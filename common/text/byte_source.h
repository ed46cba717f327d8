// SPDX-License-Identifier: Apache-2.0
// A file or pipe as a stream of bytes, decompressed where it is zstd or gzip. Bounded memory: the window of the
// compression, at most 128 MiB, and some buffers. Inside this room only.
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
  // Appends at least one more byte to `out`; false at the end. InvalidArgument when compressed data is damaged, cut or
  // not decoded here, with the command that helps.
  virtual absl::StatusOr<bool> Read(std::string& out) = 0;
  // Bytes of the file (compressed) read so far.
  virtual uint64_t position_bytes() const = 0;
  // Nothing for a pipe, which can be read only once.
  virtual std::optional<uint64_t> file_bytes() const = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlain(const Files& files, const std::string& path);

// The decoder is chosen by the first bytes, whatever the name is, at the first Read. Several frames or members in a row
// are one stream, zeros behind them are left out, anything else there is refused. A name that ends in .gz or .zst
// promises that compression. A byte order mark of UTF-8 at the beginning is left out.
std::unique_ptr<ByteSource> Decompressed(std::unique_ptr<ByteSource> plain, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_BYTE_SOURCE_H_
