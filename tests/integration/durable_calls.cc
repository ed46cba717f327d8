// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD library that numbers, logs and breaks the calls by which a real process changes its
// disk or makes changes durable. Only files below the directory DURABLE_CALLS_BELOW (absolute,
// symbolic links resolved) count. Calls run one at a time, so that their order is the order of
// their effects.
//
// DURABLE_CALLS_LOG   the log, outside that directory; a later process appends to it. One record per call: the
//                     fields separated by tabs, a line feed, then the bytes written by a write:
//                       number  kind  errno or 0  offset or size  bytes written
//                       path  second path or empty, both below the directory  the fault that it met or empty
// DURABLE_CALLS_FROM  the number of the first call, for a process that follows another; 0 if absent
// DURABLE_CALLS_AT, DURABLE_CALLS_FAULT   the call with that number meets this fault: killed-before, killed-after, EIO,
//                     ENOSPC (it fails without an effect), short (a write writes half, and the next write to that file
//                     fails with ENOSPC, as on a disk that became full; any other call fails with ENOSPC)
//
// Calls that change neither bytes nor names are not counted: open of an existing file, mkdir of an
// existing directory, removal of a missing file, chmod, fchmod, fchown, flock, and sync_file_range,
// which promises nothing. Memory-mapped writes are not seen: SQLite's -shm is mapped, but holds
// nothing durable, and a ledger opened by one process has none. crash_points.py compares the
// records with strace's.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/integration/preload.h"

namespace {

using atl::preload::LinkTarget;
using atl::preload::Needed;
using atl::preload::PathOf;
using atl::preload::Real;

uint64_t Number(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Call {
  const char* kind;
  std::string path, to = {};  // below the directory
  off_t offset = 0;           // or a size
  std::string bytes = {};     // of a write
};

class Calls {
 public:
  Calls() {
    static constinit Real real(&open, "open");
    log_ = real(Needed("DURABLE_CALLS_LOG").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_ < 0 || !below_.starts_with('/')) std::abort();
  }

  static Calls& Of() {
    static Calls* const calls =
        std::make_unique<Calls>().release();  // never destroyed: calls arrive until the process exits
    return *calls;
  }

  // The path relative to the directory, "." for the directory itself; empty for any other path.
  std::string Below(const std::string& path) const {
    if (path == below_) return ".";
    return path.starts_with(below_ + "/") ? path.substr(below_.size() + 1) : "";
  }

  // Makes the call, or the part that the fault allows. `make(n)` makes it; a write writes only its
  // first n bytes. Locks `lock`.
  template <typename Make>
  auto Play(const Call& call, const std::lock_guard<std::mutex>&, Make make) -> decltype(make(size_t{0})) {
    const std::string_view fault = next_ == at_ ? std::string_view(fault_) : "";
    if (fault == "killed-before") Die(call, 0);
    if (const int code = Refusal(call, fault); code != 0) {
      WriteDown(call, code, 0, fault);
      errno = code;
      return -1;
    }
    const auto result = make(fault == "short" ? call.bytes.size() / 2 : call.bytes.size());
    const int code = result < 0 ? errno : 0;
    const size_t written = call.bytes.empty() || result < 0 ? 0 : static_cast<size_t>(result);
    if (fault == "killed-after") Die(call, written);
    WriteDown(call, code, written, fault);
    errno = code;
    return result;
  }

  std::mutex& mutex() { return mutex_; }

 private:
  // The error with which the call fails without an effect; 0 if the call is made.
  int Refusal(const Call& call, std::string_view fault) {
    const bool writes = !call.bytes.empty(), full = writes && call.path == full_path_;
    if (full) full_path_.clear();
    if (fault == "short" && writes) full_path_ = call.path;
    if (fault == "EIO") return EIO;
    return full || fault == "ENOSPC" || (fault == "short" && !writes) ? ENOSPC : 0;
  }

  [[noreturn]] void Die(const Call& call, size_t written) {
    WriteDown(call, 0, written, fault_);
    for (;;) kill(getpid(), SIGKILL);
  }

  void WriteDown(const Call& call, int code, size_t written, std::string_view fault) {
    const std::string record = std::to_string(next_++) + "\t" + call.kind + "\t" + std::to_string(code) + "\t" +
                               std::to_string(call.offset) + "\t" + std::to_string(written) + "\t" + call.path + "\t" +
                               call.to + "\t" + std::string(fault) + "\n" + call.bytes.substr(0, written);
    static constinit Real real(&write, "write");
    if (real(log_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) std::abort();
  }

  const std::string below_ = Needed("DURABLE_CALLS_BELOW");
  const uint64_t at_ = Number("DURABLE_CALLS_AT", UINT64_MAX);
  const std::string fault_ = at_ == UINT64_MAX ? "" : Needed("DURABLE_CALLS_FAULT");
  int log_ = -1;
  std::mutex mutex_;
  uint64_t next_ = Number("DURABLE_CALLS_FROM", 0);
  std::string full_path_;  // the next write to it fails with ENOSPC
};

// Empty if the descriptor is not a file below the directory.
std::string Below(int fd) { return Calls::Of().Below(PathOf(fd)); }

std::string Below(int directory, const char* path) {
  if (path[0] == '/') return Calls::Of().Below(path);
  const std::string base = directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(directory);
  return Calls::Of().Below(LinkTarget(base) + "/" + path);
}

bool IsThere(int directory, const char* path) {
  struct stat s {};
  return fstatat(directory, path, &s, AT_SYMLINK_NOFOLLOW) == 0;
}

bool IsDirectory(int directory, const char* path) {
  struct stat s {};
  return fstatat(directory, path, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode);
}

// The offset of the next write without an explicit offset.
off_t End(int fd) {
  struct stat s {};
  const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  return appends && fstat(fd, &s) == 0 ? s.st_size : lseek(fd, 0, SEEK_CUR);
}

int Open(int directory, const char* path, int flags, mode_t mode) {
  static constinit Real real(&openat, "openat");
  const std::lock_guard lock(Calls::Of().mutex());
  const std::string below = Below(directory, path);
  const auto make = [&](size_t) { return real(directory, path, flags, mode); };
  const bool makes = (flags & O_CREAT) != 0 && !IsThere(directory, path);
  if (below.empty() || (!makes && (flags & O_TRUNC) == 0)) return make(0);
  return Calls::Of().Play({.kind = makes ? "create" : "truncate", .path = below}, lock, make);
}

// Writes all of `pieces`, at `offset` or at the file position (-1).
ssize_t Write(int fd, const iovec* pieces, int count, off_t offset) {
  static constinit Real real(&pwritev, "pwritev");
  static constinit Real real_here(&writev, "writev");
  const auto make_all = [&] { return offset < 0 ? real_here(fd, pieces, count) : real(fd, pieces, count, offset); };
  const std::string below = Below(fd);
  if (below.empty()) return make_all();  // sockets block, and must not wait for each other
  const std::lock_guard lock(Calls::Of().mutex());
  Call call{.kind = "write", .path = below, .offset = offset < 0 ? End(fd) : offset};
  for (const iovec* piece = pieces; piece != pieces + count; ++piece)
    call.bytes.append(static_cast<const char*>(piece->iov_base), piece->iov_len);
  return Calls::Of().Play(call, lock, [&](size_t n) {
    const iovec first{call.bytes.data(), n};
    return offset < 0 ? real_here(fd, &first, 1) : real(fd, &first, 1, offset);
  });
}

// A call that applies `make()` to an open file.
template <typename Make>
int OnFile(const char* kind, int fd, off_t size, Make make) {
  const std::lock_guard lock(Calls::Of().mutex());
  const std::string below = Below(fd);
  if (below.empty()) return make();
  return Calls::Of().Play({.kind = kind, .path = below, .offset = size}, lock, [&](size_t) { return make(); });
}

// A call that applies `make()` to a name. `changes`: whether it can have an effect.
template <typename Make>
int OnName(const char* kind, const std::string& below, const std::string& to, bool changes, Make make) {
  const std::lock_guard lock(Calls::Of().mutex());
  if (below.empty() || !changes) return make();
  return Calls::Of().Play({.kind = kind, .path = below, .to = to}, lock, [&](size_t) { return make(); });
}

int Rename(int from_directory, const char* from, int to_directory, const char* to) {
  static constinit Real real(&renameat, "renameat");
  return OnName("rename", Below(from_directory, from), Below(to_directory, to), IsThere(from_directory, from),
                [&] { return real(from_directory, from, to_directory, to); });
}

int Link(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  static constinit Real real(&linkat, "linkat");
  return OnName("link", Below(from_directory, from), Below(to_directory, to), !IsThere(to_directory, to),
                [&] { return real(from_directory, from, to_directory, to, flags); });
}

int Remove(int directory, const char* path, int flags) {
  static constinit Real real(&unlinkat, "unlinkat");
  const bool as_directory = (flags & AT_REMOVEDIR) != 0;
  return OnName(as_directory ? "rmdir" : "unlink", Below(directory, path), "",
                IsThere(directory, path) && IsDirectory(directory, path) == as_directory,
                [&] { return real(directory, path, flags); });
}

int MakeDirectory(int directory, const char* path, mode_t mode) {
  static constinit Real real(&mkdirat, "mkdirat");
  return OnName("mkdir", Below(directory, path), "", !IsThere(directory, path),
                [&] { return real(directory, path, mode); });
}

mode_t Mode(int flags, va_list list) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = Mode(flags, list);
  va_end(list);
  return Open(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = Mode(flags, list);
  va_end(list);
  return Open(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = Mode(flags, list);
  va_end(list);
  return Open(directory, path, flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = Mode(flags, list);
  va_end(list);
  return Open(directory, path, flags, mode);
}

int creat(const char* path, mode_t mode) { return Open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char* path, mode_t mode) { return Open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

ssize_t write(int fd, const void* bytes, size_t size) {
  const iovec piece{const_cast<void*>(bytes), size};
  return Write(fd, &piece, 1, -1);
}
ssize_t writev(int fd, const iovec* pieces, int count) { return Write(fd, pieces, count, -1); }
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  const iovec piece{const_cast<void*>(bytes), size};
  return Write(fd, &piece, 1, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  const iovec piece{const_cast<void*>(bytes), size};
  return Write(fd, &piece, 1, offset);
}
ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) { return Write(fd, pieces, count, offset); }
ssize_t pwritev64(int fd, const iovec* pieces, int count, off64_t offset) { return Write(fd, pieces, count, offset); }

int ftruncate(int fd, off_t size) noexcept {
  static constinit Real real(&ftruncate, "ftruncate");
  return OnFile("truncate", fd, size, [&] { return real(fd, size); });
}
int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }

int fsync(int fd) {
  static constinit Real real(&fsync, "fsync");
  return OnFile("sync", fd, 0, [&] { return real(fd); });
}
int fdatasync(int fd) {
  static constinit Real real(&fdatasync, "fdatasync");
  return OnFile("sync", fd, 0, [&] { return real(fd); });
}

int rename(const char* from, const char* to) noexcept { return Rename(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return Rename(from_directory, from, to_directory, to);
}
int link(const char* from, const char* to) noexcept { return Link(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  return Link(from_directory, from, to_directory, to, flags);
}
int unlink(const char* path) noexcept { return Remove(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return Remove(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int directory, const char* path, int flags) noexcept { return Remove(directory, path, flags); }
int remove(const char* path) noexcept { return Remove(AT_FDCWD, path, IsDirectory(AT_FDCWD, path) ? AT_REMOVEDIR : 0); }
int mkdir(const char* path, mode_t mode) noexcept { return MakeDirectory(AT_FDCWD, path, mode); }
int mkdirat(int directory, const char* path, mode_t mode) noexcept { return MakeDirectory(directory, path, mode); }

}  // extern "C"
