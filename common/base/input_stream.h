// SPDX-License-Identifier: Apache-2.0
// An input for one sequential read: a regular file, a pipe or a terminal.
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
  // Reads the next bytes into the front of `out`, which must not be empty, and returns their
  // number; 0 only at the end.
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // Size of a regular file, which may be opened and read again; 0 for /dev/null. nullopt for a pipe
  // or a terminal, which can be read once only.
  virtual std::optional<uint64_t> size_bytes() const = 0;
};

// Opens a regular file, a pipe, a terminal or /dev/null, without waiting for the writer of a named
// pipe. The first Read waits at most `pipe_wait_ms` for that writer. Without a writer, Read returns
// FailedPrecondition. Any other kind of file is FailedPrecondition, and the message names the kind.
absl::StatusOr<std::unique_ptr<InputStream>> OpenPosixStream(const std::string& path, int pipe_wait_ms);

// Opens a regular file for reads in any order. Never blocks. Other kinds are FailedPrecondition.
absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path);

// Returns "WHAT PATH: REASON", as in "open a.txt: ...", with the status code for `number`, an errno.
absl::Status FileError(const char* what, const std::string& path, int number);

// Returns FailedPrecondition, with advice, when a file that begins with `head` is a Git LFS pointer
// instead of the downloaded file.
absl::Status CheckNotLfsPointer(const std::string& path, std::string_view head);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_INPUT_STREAM_H_
