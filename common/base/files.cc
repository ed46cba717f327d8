// SPDX-License-Identifier: Apache-2.0
#include "common/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/inodes.h"

namespace atl {
namespace {

bool IsDirectory(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
}

// Returns the error of mkdir for `path`, which exists and is no directory: a file, or a link with a missing target.
absl::Status NotADirectory(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (error || std::filesystem::exists(path, error)) return FileError("mkdir", path, ENOTDIR);
  return absl::NotFoundError(absl::StrCat(path, " is a symbolic link to ", target.string(),
                                          ", which does not exist; mount or create the target, or name another path"));
}

// After each run of this many written bytes, PosixFile asks the kernel to start writing to the disk (WriteBehind), so
// that the final flush has little left to do.
constexpr size_t kWriteBehindBytes = size_t{8} << 20;
// Piece size for new files. Writes that bypass the page cache need offsets, sizes and memory
// aligned to whole blocks.
constexpr size_t kNewFilePiece = size_t{1} << 20;
constexpr uint64_t kPastCacheBytes = uint64_t{4} << 20;  // smaller files do not bypass the page cache
constexpr size_t kBlock = 4096;
static_assert(kNewFileHead % kBlock == 0, "what is behind the head goes past the page cache");
constexpr size_t kPiecesAtOnce = 64;  // pieces of one writev: enough for a megabyte in slices of 64 KiB with headers

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { ::close(fd_); }

  absl::Status Append(Bytes data) override { return AppendPieces({&data, 1}); }

  absl::Status AppendPieces(std::span<const Bytes> pieces) override {
    for (size_t written = 0;;) {  // bytes of the first piece that are already written
      for (; !pieces.empty() && written >= pieces.front().size(); pieces = pieces.subspan(1)) {
        written -= pieces.front().size();
      }
      if (pieces.empty()) return absl::OkStatus();
      const ssize_t n = WriteSome(pieces, written);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("write", path_, errno);
      if (n == 0) return FileError("write", path_, ENOSPC);
      written += static_cast<size_t>(n);
      WriteBehind(static_cast<size_t>(n));
    }
  }

  // From now on WriteAt bypasses the page cache, where the file system allows it, until the first write that is not
  // aligned to blocks or that the file system refuses.
  void PastCache() { past_cache_ = ::fcntl(fd_, F_SETFL, O_DIRECT) == 0; }
  // Only for a file that was not opened for appending.
  absl::Status WriteAt(uint64_t offset, Bytes data) {
    while (!data.empty()) {
      const ssize_t n = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL &&
          past_cache_) {  // unaligned end of the file, or O_DIRECT fails although it was accepted
        ATOLL_RETURN_IF_ERROR(ThroughCache());
        continue;
      }
      if (n < 0) return FileError("write", path_, errno);
      if (n == 0) return FileError("write", path_, ENOSPC);
      data = data.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
      if (!past_cache_) {
        WriteBehind(static_cast<size_t>(n));
      } else if (static_cast<size_t>(n) % kBlock != 0) {
        ATOLL_RETURN_IF_ERROR(ThroughCache());
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError("read", path_, errno);
      if (n == 0) return absl::OutOfRangeError(absl::StrCat("read ", path_, ": the file ends at offset ", offset));
      out = out.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    unwritten_ = 0;
    if (::fdatasync(fd_) != 0) return FileError("fdatasync", path_, errno);
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t size) override {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return FileError("truncate", path_, errno);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() const override {
    struct stat s {};
    if (::fstat(fd_, &s) != 0) return FileError("stat", path_, errno);
    return static_cast<uint64_t>(s.st_size);
  }

 private:
  // writev of the next pieces without the first `skip` bytes of the first piece; at most
  // kWriteBehindBytes.
  ssize_t WriteSome(std::span<const Bytes> pieces, size_t skip) {
    std::array<iovec, kPiecesAtOnce> gathered;
    size_t count = 0, room = kWriteBehindBytes;
    for (const Bytes& piece : pieces.first(std::min(pieces.size(), gathered.size()))) {
      if (room == 0) break;
      const Bytes rest = piece.subspan(skip, std::min(piece.size() - skip, room));
      gathered[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
      room -= rest.size();
      skip = 0;
    }
    return ::writev(fd_, gathered.data(), static_cast<int>(count));
  }

  // Starts to write to the disk after each kWriteBehindBytes. Best effort: ignores errors, which Sync reports later.
  void WriteBehind(size_t appended) {
    unwritten_ += appended;
    if (unwritten_ < kWriteBehindBytes) return;
    unwritten_ = 0;
    (void)::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
  }

  absl::Status ThroughCache() {
    past_cache_ = false;
    return ::fcntl(fd_, F_SETFL, 0) == 0 ? absl::OkStatus() : FileError("fcntl", path_, errno);
  }

  int fd_;
  std::string path_;
  size_t unwritten_ = 0;  // bytes appended since the last start of a write
  bool past_cache_ = false;
};

// Calls take(offset, size) for each piece of a new file, in the order of writing.
template <typename Take>
absl::Status EachPiece(const NewFile& file, const Take& take) {
  ATOLL_CHECK(file.filled <= file.bytes, "what is filled of a new file lies in it");
  for (uint64_t at = kNewFileHead; at < file.filled; at += kNewFilePiece)
    ATOLL_RETURN_IF_ERROR(take(at, static_cast<size_t>(std::min<uint64_t>(file.filled - at, kNewFilePiece))));
  const auto head = static_cast<size_t>(std::min(file.filled, kNewFileHead));
  return head > 0 ? take(uint64_t{0}, head) : absl::OkStatus();
}

// Fills and flushes a file that is empty so far. The buffer is aligned to blocks in memory, as writes
// past the page cache require.
absl::Status FillNew(PosixFile& to, const NewFile& file, const FillPiece& fill) {
  const std::unique_ptr<std::byte[], decltype(&std::free)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kBlock, kNewFilePiece)), &std::free);
  if (buffer == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", kNewFilePiece, " bytes"));
  ATOLL_RETURN_IF_ERROR(EachPiece(file, [&](uint64_t at, size_t bytes) {
    const std::span<std::byte> piece(buffer.get(), bytes);
    fill(at, piece);
    return to.WriteAt(at, piece);
  }));
  if (file.bytes > file.filled) ATOLL_RETURN_IF_ERROR(to.Truncate(file.bytes));
  return to.Sync();
}

// Opens a regular file for writing. O_NONBLOCK, because opening a named pipe for writing would wait for its reader.
absl::StatusOr<std::unique_ptr<PosixFile>> Open(const std::string& path, int flags) {
  Descriptor opened(::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  if (!opened.open()) return FileError("open", path, errno);
  struct stat facts {};
  if (::fstat(opened.get(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return absl::FailedPreconditionError(absl::StrCat("open ", path, ": it is no regular file; remove it"));
  return std::make_unique<PosixFile>(opened.Release(), path);
}

class PosixFiles final : public Files {
 public:
  explicit PosixFiles(int pipe_wait_ms) : pipe_wait_ms_(pipe_wait_ms) {}
  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    return Open(path, O_RDWR | O_CREAT | O_APPEND);
  }
  absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill) override {
    ATOLL_ASSIGN_OR_RETURN(const auto to, Open(path, O_WRONLY | O_CREAT | O_EXCL));
    if (file.filled >= kPastCacheBytes) to->PastCache();
    return FillNew(*to, file, fill);
  }
  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override {
    ATOLL_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(path));
    return std::make_unique<PosixFile>(opened.Release(), path);
  }
  absl::StatusOr<std::unique_ptr<InputStream>> OpenStream(const std::string& path) const override {
    return OpenPosixStream(path, pipe_wait_ms_);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return FileError("rename", from, errno);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0 && errno != ENOENT) return FileError("remove", path, errno);
    return absl::OkStatus();
  }
  absl::Status HardLink(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) return FileError("link", to, errno);
    return absl::OkStatus();
  }
  absl::Status MakeDirectory(const std::string& path) override {
    for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
      const std::string part = path.substr(0, at);
      if (::mkdir(part.c_str(), 0755) != 0) {
        const int code = errno;
        // The parent directory exists, yet mkdir reports ENOENT: /proc and similar file systems, in
        // which no process may create anything, do that.
        if (code == ENOENT && !part.empty() && IsDirectory(DirectoryOf(part))) return FileError("mkdir", part, EROFS);
        if (code != EEXIST) return FileError("mkdir", part, code);
        if (!IsDirectory(part)) return NotADirectory(part);
      }
      if (at == std::string::npos) return absl::OkStatus();
    }
  }
  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FileError("open", path, errno);
    const int failed = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    return failed ? FileError("fsync", path, failed) : absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    std::vector<std::string> names;
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) {
      if (errno == ENOENT) return names;
      return FileError("list", path, errno);
    }
    while (const dirent* entry = ::readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }
  bool Exists(const std::string& path) const override { return ::access(path.c_str(), F_OK) == 0; }
  absl::StatusOr<Space> SpaceAt(const std::string& path) const override {
    struct statvfs s {};
    if (::statvfs(path.c_str(), &s) != 0) return FileError("statvfs", path, errno);
    return SpaceWithInodes({s.f_bavail * s.f_frsize, s.f_blocks * s.f_frsize}, s.f_favail, s.f_files);
  }

 private:
  const int pipe_wait_ms_;
};

// A stream over a File, for implementations of Files that define no OpenStream.
class StreamOfFile final : public InputStream {
 public:
  StreamOfFile(std::unique_ptr<File> file, uint64_t size_bytes) : file_(std::move(file)), size_bytes_(size_bytes) {}
  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), size_bytes_ - at_));
    ATOLL_RETURN_IF_ERROR(file_->ReadAt(at_, out.first(count)));
    at_ += count;
    return count;
  }
  std::optional<uint64_t> size_bytes() const override { return size_bytes_; }

 private:
  const std::unique_ptr<File> file_;
  const uint64_t size_bytes_;
  uint64_t at_ = 0;
};

}  // namespace

absl::Status File::AppendPieces(std::span<const Bytes> pieces) {
  for (const Bytes& piece : pieces) ATOLL_RETURN_IF_ERROR(Append(piece));
  return absl::OkStatus();
}

absl::Status Files::WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill) {
  if (Exists(path)) return absl::AlreadyExistsError(absl::StrCat("open ", path, ": the file already exists"));
  // An append-only file needs the head first, but the head is filled last.
  std::vector<std::byte> content(file.bytes);
  ATOLL_RETURN_IF_ERROR(EachPiece(file, [&](uint64_t at, size_t bytes) {
    fill(at, std::span(content).subspan(at, bytes));
    return absl::OkStatus();
  }));
  ATOLL_ASSIGN_OR_RETURN(const auto to, OpenForAppend(path));
  for (size_t at = 0; at < content.size(); at += kNewFilePiece)
    ATOLL_RETURN_IF_ERROR(to->Append(std::span(content).subspan(at, std::min(content.size() - at, kNewFilePiece))));
  return to->Sync();
}

absl::StatusOr<std::unique_ptr<InputStream>> Files::OpenStream(const std::string& path) const {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  return std::make_unique<StreamOfFile>(std::move(file), size);
}

std::unique_ptr<Files> MakePosixFiles(int pipe_wait_ms) { return std::make_unique<PosixFiles>(pipe_wait_ms); }

absl::StatusOr<std::string> ReadWholeFile(const Files& files, const std::string& path, uint64_t limit_bytes) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<InputStream> stream, files.OpenStream(path));
  const uint64_t size = stream->size_bytes().value_or(0);
  if (size > limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", size, " bytes, more than the limit of ", limit_bytes));
  }
  std::string content;
  size_t filled = 0;
  // Reads to the end, because the size may be unknown or wrong, as for files of /proc.
  for (size_t room = static_cast<size_t>(size) + 1;; room = 2 * room + kBlock) {
    content.resize(room);
    while (filled < room) {
      ATOLL_ASSIGN_OR_RETURN(const size_t count,
                             stream->Read(std::as_writable_bytes(std::span(content).subspan(filled))));
      filled += count;
      if (count == 0) {
        content.resize(filled);
        ATOLL_RETURN_IF_ERROR(CheckNotLfsPointer(path, content));
        return content;
      }
      if (filled > limit_bytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat(path, " has more than the ", limit_bytes, " bytes that are read at most"));
      }
    }
  }
}

absl::Status WriteFileAtomically(Files& files, const std::string& path, Bytes data) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  ATOLL_RETURN_IF_ERROR(files.Remove(temporary));
  absl::Status renamed = [&]() -> absl::Status {
    {
      ATOLL_ASSIGN_OR_RETURN(const auto file, files.OpenForAppend(temporary));
      ATOLL_RETURN_IF_ERROR(file->Append(data));
      ATOLL_RETURN_IF_ERROR(file->Sync());
    }
    return files.Rename(temporary, path);
  }();
  if (!renamed.ok()) {
    (void)files.Remove(temporary);
    return renamed;
  }
  return files.SyncDirectory(DirectoryOf(path));
}

std::string JoinPath(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace atl
