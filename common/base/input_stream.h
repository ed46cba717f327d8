// SPDX-License-Identifier: Apache-2.0
// An input that is read once, from front to back: a regular file, a pipe or a terminal.
#ifndef ATOLL_COMMON_BASE_INPUT_STREAM_H_
#define ATOLL_COMMON_BASE_INPUT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/descriptor.h"
#include "common/base/status.h"

namespace atl {

class InputStream {
 public:
  virtual ~InputStream() = default;
  // Reads the next bytes to the front of `out`, which is not empty, and returns their number: 0 at the end only.
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // The size of a regular file, which may be opened again. Nothing for a pipe or a terminal, which may not.
  virtual std::optional<uint64_t> size_bytes() const = 0;
};

// Opens a regular file, a pipe, a terminal or /dev/null, without waiting for the writer of a named pipe. The first Read
// waits `pipe_wait_ms` for that writer. A pipe without a writer, and anything else that `path` names, is
// FailedPrecondition, and the message says what it is.
absl::StatusOr<std::unique_ptr<InputStream>> OpenPosixStream(const std::string& path, int pipe_wait_ms);

// Opens a regular file, whose bytes may be read in any order. Never waits. Other kinds are FailedPrecondition.
absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path);

// "open PATH: REASON" with the code that fits `number`, an errno.
absl::Status FileError(const char* what, const std::string& path, int number);

// FailedPrecondition, with advice, when a file that begins with `head` is the pointer that Git LFS leaves in the place
// of a file that was not downloaded.
absl::Status CheckNotLfsPointer(const std::string& path, std::string_view head);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_INPUT_STREAM_H_
