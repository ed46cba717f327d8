// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD library that slows down the disk of a real process: it delays every write and flush of
// a file below the directory SLOW_DISK_BELOW (absolute, symbolic links resolved). The file
// SLOW_DISK_FILE holds four little-endian 8-byte numbers. The test may set the first two at any
// time: the longest delay of a flush and of a write, in nanoseconds. The test may read the others:
// the number of delayed calls and their total delay in nanoseconds. Each delay follows from
// SLOW_DISK_SEED and the number of the call. Calls wait in parallel, as on a drive with a queue.
// Sockets and other files are not delayed.
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/integration/preload.h"

namespace {

using atl::preload::Needed;
using atl::preload::PathOf;
using atl::preload::Real;
using atl::preload::SharedPage;

constexpr uint64_t kSecond_ns = 1'000'000'000;

struct Page {
  std::atomic<uint64_t> flush_most_ns, write_most_ns, delayed, delayed_ns;
};

Page& Told() {
  static Page& page = SharedPage<Page>("SLOW_DISK_FILE");
  return page;
}

bool IsBelow(int fd) {
  static const std::string below = Needed("SLOW_DISK_BELOW") + "/";
  return PathOf(fd).starts_with(below);
}

// A 64-bit random number for each call (splitmix64).
uint64_t Dice(uint64_t call) {
  static const uint64_t seed = std::strtoull(Needed("SLOW_DISK_SEED").c_str(), nullptr, 10);
  uint64_t z = seed + call * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void Delay(int fd, const std::atomic<uint64_t>& most_ns) {
  const uint64_t most = most_ns;
  if (most == 0 || !IsBelow(fd)) return;
  const uint64_t ns = Dice(Told().delayed++) % most;
  Told().delayed_ns += ns;
  timespec left{static_cast<time_t>(ns / kSecond_ns), static_cast<long>(ns % kSecond_ns)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void DelayWrite(int fd) { Delay(fd, Told().write_most_ns); }
void DelayFlush(int fd) { Delay(fd, Told().flush_most_ns); }

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  static constinit Real real(&write, "write");
  DelayWrite(fd);
  return real(fd, bytes, size);
}
ssize_t writev(int fd, const iovec* pieces, int count) {
  static constinit Real real(&writev, "writev");
  DelayWrite(fd);
  return real(fd, pieces, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static constinit Real real(&pwrite, "pwrite");
  DelayWrite(fd);
  return real(fd, bytes, size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  static constinit Real real(&pwrite64, "pwrite64");
  DelayWrite(fd);
  return real(fd, bytes, size, offset);
}
ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  static constinit Real real(&pwritev, "pwritev");
  DelayWrite(fd);
  return real(fd, pieces, count, offset);
}
ssize_t pwritev64(int fd, const iovec* pieces, int count, off64_t offset) {
  static constinit Real real(&pwritev64, "pwritev64");
  DelayWrite(fd);
  return real(fd, pieces, count, offset);
}
int fsync(int fd) {
  static constinit Real real(&fsync, "fsync");
  DelayFlush(fd);
  return real(fd);
}
int fdatasync(int fd) {
  static constinit Real real(&fdatasync, "fdatasync");
  DelayFlush(fd);
  return real(fd);
}

}  // extern "C"
