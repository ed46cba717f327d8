// SPDX-License-Identifier: Apache-2.0
// A file descriptor that is closed by its owner's destructor.
#ifndef ATOLL_COMMON_BASE_DESCRIPTOR_H_
#define ATOLL_COMMON_BASE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace atl {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Passes ownership to the caller.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_DESCRIPTOR_H_
