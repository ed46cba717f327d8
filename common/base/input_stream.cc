// SPDX-License-Identifier: Apache-2.0
#include "common/base/input_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl {
namespace {

constexpr char kLfsPointer[] = "version https://git-lfs.github.com/spec/";

const char* NameOfKind(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISCHR(mode)) return "a device";
  return "not a regular file";
}

absl::Status Refused(const std::string& path, mode_t mode, const char* wanted) {
  if (S_ISDIR(mode)) return FileError("read", path, EISDIR);
  return absl::FailedPreconditionError(absl::StrCat("read ", path, ": it is ", NameOfKind(mode), "; give ", wanted));
}

struct Opened {
  Descriptor descriptor;
  struct stat facts {};
};

// O_NONBLOCK: a named pipe opens without waiting for a writer; a regular file ignores the flag.
absl::StatusOr<Opened> Open(const std::string& path) {
  Opened out;
  out.descriptor = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!out.descriptor.open()) {
    const int number = errno;
    if (number == ENXIO && ::stat(path.c_str(), &out.facts) == 0 && !S_ISREG(out.facts.st_mode)) {
      return Refused(path, out.facts.st_mode, "a file");
    }
    return FileError("open", path, number);
  }
  if (::fstat(out.descriptor.get(), &out.facts) != 0) return FileError("stat", path, errno);
  return out;
}

absl::StatusOr<size_t> ReadSome(int fd, const std::string& path, std::span<std::byte> out) {
  for (;;) {
    const ssize_t n = ::read(fd, out.data(), out.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) return FileError("read", path, errno);
  }
}

class RegularStream final : public InputStream {
 public:
  RegularStream(Descriptor descriptor, std::string path, uint64_t size_bytes)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), size_bytes_(size_bytes) {}
  absl::StatusOr<size_t> Read(std::span<std::byte> out) override { return ReadSome(descriptor_.get(), path_, out); }
  std::optional<uint64_t> size_bytes() const override { return size_bytes_; }

 private:
  Descriptor descriptor_;
  std::string path_;
  uint64_t size_bytes_;
};

// For a pipe or a terminal opened with O_NONBLOCK.
class PipeStream final : public InputStream {
 public:
  PipeStream(Descriptor descriptor, std::string path, int wait_ms)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), wait_ms_(wait_ms) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    while (!has_begun_) {
      const ssize_t n = ::read(descriptor_.get(), out.data(), out.size());
      const int number = errno;
      if (n == 0) ATOLL_RETURN_IF_ERROR(WaitForWriter());  // no writer yet, or it has closed the pipe again
      if (n < 0 && number != EINTR && number != EAGAIN) return FileError("read", path_, number);
      if (n > 0 || (n < 0 && number == EAGAIN)) ATOLL_RETURN_IF_ERROR(Begin());
      if (n > 0) return static_cast<size_t>(n);
    }
    return ReadSome(descriptor_.get(), path_, out);
  }
  std::optional<uint64_t> size_bytes() const override { return std::nullopt; }

 private:
  absl::Status WaitForWriter() {
    pollfd event{descriptor_.get(), POLLIN, 0};
    const int came = ::poll(&event, 1, wait_ms_);
    if (came == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("read ", path_, ": it is a pipe, and no program opened it for writing within ", wait_ms_ / 1000,
                       " seconds; start the program that writes it, or give a file"));
    }
    if (came > 0 && (event.revents & POLLIN) == 0)
      return Begin();  // POLLHUP: the writer has closed the pipe, and nothing is left
    return absl::OkStatus();
  }
  // Makes reads blocking from now on.
  absl::Status Begin() {
    has_begun_ = true;
    return ::fcntl(descriptor_.get(), F_SETFL, 0) == 0 ? absl::OkStatus() : FileError("fcntl", path_, errno);
  }

  Descriptor descriptor_;
  std::string path_;
  int wait_ms_;
  bool has_begun_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> OpenPosixStream(const std::string& path, int pipe_wait_ms) {
  ATOLL_ASSIGN_OR_RETURN(Opened opened, Open(path));
  const struct stat& facts = opened.facts;
  const bool is_null = S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3);
  if (S_ISREG(facts.st_mode) || is_null) {
    return std::make_unique<RegularStream>(std::move(opened.descriptor), path, static_cast<uint64_t>(facts.st_size));
  }
  if (S_ISFIFO(facts.st_mode) || ::isatty(opened.descriptor.get()) == 1) {
    return std::make_unique<PipeStream>(std::move(opened.descriptor), path, pipe_wait_ms);
  }
  return Refused(path, facts.st_mode, "a file or a pipe");
}

absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(Opened opened, Open(path));
  if (!S_ISREG(opened.facts.st_mode)) return Refused(path, opened.facts.st_mode, "a regular file");
  return std::move(opened.descriptor);
}

absl::Status FileError(const char* what, const std::string& path, int number) {
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(number));
  if (number == ENOENT) return absl::NotFoundError(text);
  if (number == ENOSPC || number == EDQUOT || number == EFBIG) return absl::ResourceExhaustedError(text);
  if (number == EEXIST) return absl::AlreadyExistsError(text);
  if (number == EISDIR || number == ENOTDIR || number == ELOOP || number == ENAMETOOLONG || number == EACCES ||
      number == EPERM || number == EROFS) {
    return absl::FailedPreconditionError(text);
  }
  return absl::InternalError(text);
}

absl::Status CheckNotLfsPointer(const std::string& path, std::string_view head) {
  if (!head.starts_with(kLfsPointer)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is a Git LFS pointer, not the file itself; run `git lfs pull` in its repository"));
}

}  // namespace atl
