// SPDX-License-Identifier: Apache-2.0
// The file system as an interface, so that the simulator and crash tests can stand behind the store.
// Every method names its path in the error it returns. A failed Sync is never retried by a caller (I24).
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

// An open file. Not thread-safe, but ReadAt may run beside other ReadAt calls. The destructor closes without flushing.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `data` at the end. ResourceExhausted when the disk is full, otherwise Internal.
  virtual absl::Status Append(Bytes data) = 0;
  // The same of all pieces, in order, in as few calls of the system as they take; here one after the other.
  virtual absl::Status AppendPieces(std::span<const Bytes> pieces);
  // Fills all of `out` from `offset`; OutOfRange when the file ends before.
  virtual absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // fdatasync.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
  // Nobody reads soon what was flushed of it: the memory in which the system keeps that may serve what is written next.
  // Changes nothing of the file, and promises nothing.
  virtual void LetGo() {}
};

// A file that is made at once: `filled` bytes that are asked for, then zeros up to `bytes`, which take no room where
// the file system can leave them out.
struct NewFile {
  uint64_t bytes = 0;
  uint64_t filled = bytes;
};
constexpr uint64_t kNewFileHead = 4096;
// Gives bytes of it: all of `out`, which begin at `offset`.
using FillPiece = std::function<void(uint64_t offset, std::span<std::byte> out)>;

class Files {
 public:
  virtual ~Files() = default;
  // Appends go to the end; creates the file if it is not there.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) = 0;
  // A file that is not there yet, written and flushed. `fill` is asked for its pieces in order, and for the first
  // kNewFileHead bytes last, which can so tell of what is behind them. For what nobody reads soon: a large file goes
  // past the page cache where the file system allows it, which costs a copy less and pushes nothing else out.
  // AlreadyExists; after another error a part of it may be there. Here, for files in memory, it is put together there
  // first.
  virtual absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill);
  // NotFound when absent, FailedPrecondition when it is no regular file.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const = 0;
  // The same for reading once from front to back, which pipes allow too where the file system has any
  // (OpenPosixStream).
  virtual absl::StatusOr<std::unique_ptr<InputStream>> OpenStream(const std::string& path) const;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK when already absent.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status HardLink(const std::string& from, const std::string& to) = 0;
  // mkdir -p. FailedPrecondition when a part of the path is a file.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // fsync of the directory: makes creations, renames and removals in it durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Names (not paths) in the directory, sorted; empty when the directory is absent.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // Bytes an unprivileged process may still write below `path`, and the size of that file system.
  struct Space {
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
  };
  virtual absl::StatusOr<Space> SpaceAt(const std::string& path) const = 0;
};

constexpr int kPipeWaitMs = 10'000;  // for a program that opens a named pipe for writing

// POSIX. Thread-safe.
std::unique_ptr<Files> MakePosixFiles(int pipe_wait_ms = kPipeWaitMs);

// Reads a file, or a pipe to its end. ResourceExhausted when it holds more than `limit_bytes`, FailedPrecondition for
// a Git LFS pointer.
absl::StatusOr<std::string> ReadWholeFile(const Files& files, const std::string& path, uint64_t limit_bytes);

// Temp file, write, fsync, rename, fsync directory: after OK the file is whole and durable, before that the old one
// stands.
absl::Status WriteFileAtomically(Files& files, const std::string& path, Bytes data);

// "a/b" from "a" and "b".
std::string JoinPath(const std::string& directory, const std::string& name);
// The part before the last slash, "." if there is none.
std::string DirectoryOf(const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_FILES_H_
