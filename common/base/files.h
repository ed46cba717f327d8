// SPDX-License-Identifier: Apache-2.0
// The file system as an interface, which the simulator and crash tests replace. Every error of the file system
// contains the path. A caller never retries a failed Sync (I24).
#ifndef ATOLL_COMMON_BASE_FILES_H_
#define ATOLL_COMMON_BASE_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/input_stream.h"
#include "common/base/status.h"

namespace atl {

// An open file. Not thread-safe, except that ReadAt calls may run concurrently. The destructor
// closes the file without flushing.
class File {
 public:
  virtual ~File() = default;
  // Appends all of `data`; after an error, perhaps a part of it. ResourceExhausted when the disk or a quota is full.
  virtual absl::Status Append(Bytes data) = 0;
  // Appends all pieces in order, in as few system calls as possible. The default calls Append for
  // each.
  virtual absl::Status AppendPieces(std::span<const Bytes> pieces);
  // Fills all of `out` from `offset`. OutOfRange when the file is too short.
  virtual absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // fdatasync.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

// A file written at once: `filled` bytes from a callback, then zeros up to `bytes`. Where possible
// the zeros are a hole that takes no space.
struct NewFile {
  uint64_t bytes = 0;
  uint64_t filled = bytes;
};
constexpr uint64_t kNewFileHead = 4096;
// Fills all of `out`, which starts at `offset` of the file.
using FillPiece = std::function<void(uint64_t offset, std::span<std::byte> out)>;

class Files {
 public:
  virtual ~Files() = default;
  // Opens a file for appending and reading; creates a missing file.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) = 0;
  // Creates, writes and flushes a new file. `fill` is called for the pieces in order, and for the
  // first kNewFileHead bytes last, so that the head can describe the rest. For content that will
  // not be read soon: a large file bypasses the page cache where the file system allows it, which
  // saves a copy and evicts nothing. AlreadyExists when the file exists; after another error a part
  // of it may exist. The default assembles the content in memory first.
  virtual absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill);
  // Opens a file for ReadAt. NotFound when it is missing, FailedPrecondition when it is not a regular file.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const = 0;
  // Opens a file for one sequential read; MakePosixFiles also opens a pipe or a terminal
  // (OpenPosixStream).
  virtual absl::StatusOr<std::unique_ptr<InputStream>> OpenStream(const std::string& path) const;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty directory. OK when it is already missing.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status HardLink(const std::string& from, const std::string& to) = 0;
  // mkdir -p. FailedPrecondition when a component of the path is a file, NotFound when it is a dangling link.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // fsync of the directory: makes creations, renames and removals in it durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Names (not paths) in the directory, sorted; empty when the directory is missing.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // Bytes that an unprivileged process may still write below `path`, fewer where the file system has few free inodes
  // (SpaceWithInodes), and the size of that file system.
  struct Space {
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
  };
  virtual absl::StatusOr<Space> SpaceAt(const std::string& path) const = 0;
};

constexpr int kPipeWaitMs = 10'000;  // longest wait for a program to open a named pipe for writing

// POSIX. Thread-safe.
std::unique_ptr<Files> MakePosixFiles(int pipe_wait_ms = kPipeWaitMs);

// Reads a file, or a pipe to its end. ResourceExhausted for more than `limit_bytes`,
// FailedPrecondition for a Git LFS pointer.
absl::StatusOr<std::string> ReadWholeFile(const Files& files, const std::string& path, uint64_t limit_bytes);

// Writes PATH.tmp, flushes it, renames it to PATH and flushes the directory. After OK the new file is
// complete and durable; on an error before the rename the old one remains.
absl::Status WriteFileAtomically(Files& files, const std::string& path, Bytes data);

// "a/b" from "a" and "b".
std::string JoinPath(const std::string& directory, const std::string& name);
// Returns the part before the last slash; "." without a slash, and "/" for a name in the root.
std::string DirectoryOf(const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_FILES_H_
