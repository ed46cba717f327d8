// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD library that makes reads fail under a real process. For files with a given text in
// their path, a number of reads succeed and the following reads fail with EIO. The file
// FAILING_READS_FILE holds four little-endian 8-byte numbers: the remaining successes and the
// remaining failures, both counted down here, and the successes and failures so far. A
// zero-terminated text follows. A test may change all of it while no failure is pending.
// Memory-mapped reads are not affected.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "tests/integration/preload.h"

namespace {

using atl::preload::PathOf;
using atl::preload::Real;
using atl::preload::SharedPage;

struct Page {
  std::atomic<uint64_t> pass, fail, passed, failed;
  char text[224];
};

// Decrements; returns false if none is left.
bool Take(std::atomic<uint64_t>& left) {
  uint64_t now = left;
  while (now != 0 && !left.compare_exchange_weak(now, now - 1)) {
  }
  return now != 0;
}

bool Fails(int fd) {
  static Page& page = SharedPage<Page>("FAILING_READS_FILE");
  if (page.fail == 0 || PathOf(fd).find(page.text) == std::string::npos) return false;
  const bool fails = !Take(page.pass) && Take(page.fail);
  ++(fails ? page.failed : page.passed);
  return fails;
}

}  // namespace

extern "C" {

ssize_t read(int fd, void* bytes, size_t size) {
  static constinit Real real(&read, "read");
  return Fails(fd) ? (errno = EIO, -1) : real(fd, bytes, size);
}
ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  static constinit Real real(&pread, "pread");
  return Fails(fd) ? (errno = EIO, -1) : real(fd, bytes, size, offset);
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t offset) {
  static constinit Real real(&pread64, "pread64");
  return Fails(fd) ? (errno = EIO, -1) : real(fd, bytes, size, offset);
}

}  // extern "C"
