// A file as a stream of bytes, decompressed on the way when it is zstd. Bounded memory. Inside this room only.
#ifndef ATOLL_COMMON_TEXT_BYTE_SOURCE_H_
#define ATOLL_COMMON_TEXT_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Appends at least one more byte to `out`; false at the end. InvalidArgument when compressed data is damaged or cut.
  virtual absl::StatusOr<bool> Read(std::string& out) = 0;
  // Bytes of the file (compressed) read so far.
  virtual uint64_t position_bytes() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlain(const Files& files, const std::string& path);
// Several frames in a row are read as one stream; windows beyond 128 MiB are refused.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenZstd(const Files& files, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_BYTE_SOURCE_H_
